"""deploy/: Kubernetes manifests against the schemas of Kubernetes and KEDA, and against our code.

Kubernetes's schemas come with the package kubernetes-validate (strict: unknown fields are errors),
KEDA's from its source, which the Go command fetches as a module. Overlays are rendered here, by the
part of kustomize that they use; where the kustomize command is installed, both must agree.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from schemas.reasons import Reason
from schemas.topics import DEDUP_APP, FETCH_RESULTS, PARSER_GROUP, URLS
from streams.autoscale.model import Rules
from streams.settings import Settings, load
from streams.telemetry import metrics

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
K8S = DEPLOY / "k8s"
OVERLAYS = ("dev", "prod", "prod-keda", "prod-hpa", "prod-autoscaler")
KUBERNETES = "v1.35.0-local-strict"
KEDA = "github.com/kedacore/keda/v2@v2.21.0"

Manifest = dict[str, Any]


def missing(what: str) -> None:
    """Skip on a user's machine, saying what is missing; in CI that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}: must be there in CI")
    pytest.skip(f"{what} is not installed: this is checked in CI")


# Rendering: resources, components, patches, images, replicas, namespace, configMapGenerator.


def documents(path: Path) -> list[Manifest]:
    return [item for item in yaml.safe_load_all(path.read_text(encoding="utf-8")) if item]


def render(folder: Path, inherited: list[Manifest] | None = None) -> list[Manifest]:
    """What `kustomize build` gives, less the order and the hash in names of ConfigMaps."""
    spec = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    known = {
        "apiVersion", "kind", "namespace", "resources", "components", "images", "replicas",
        "configMapGenerator", "patches",
    }  # fmt: skip
    assert spec.keys() <= known, f"{folder}: the renderer does not know {spec.keys() - known}"
    found = list(inherited or [])
    for name in spec.get("resources", []):
        path = folder / name
        found += render(path) if path.is_dir() else documents(path)
    for item in spec.get("configMapGenerator", []):
        generate(found, item)
    for name in spec.get("components", []):
        found = render(folder / name, found)
    for patch in spec.get("patches", []):
        apply(found, folder, patch)
    for item in found:
        transform(item, spec)
    return found


def generate(found: list[Manifest], item: Mapping[str, Any]) -> None:
    data = dict(text.split("=", 1) for text in item["literals"])
    if item.get("behavior") == "merge":
        (old,) = [
            each
            for each in found
            if each["kind"] == "ConfigMap" and each["metadata"]["name"] == item["name"]
        ]
        old["data"] |= data
    else:
        found.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": item["name"]},
                "data": data,
            }
        )


def apply(found: list[Manifest], folder: Path, patch: Mapping[str, Any]) -> None:
    """A JSON patch (add, remove) on every match of kind and name, which are whole expressions."""
    target = patch["target"]
    text = patch.get("patch") or (folder / patch["path"]).read_text(encoding="utf-8")
    hits = [
        item
        for item in found
        if re.fullmatch(target["kind"], item["kind"])
        and re.fullmatch(target["name"], item["metadata"]["name"])
    ]
    assert hits, f"{folder}: nothing matches {target}"
    for item in hits:
        for step in yaml.safe_load(text):
            *parts, last = step["path"].strip("/").split("/")
            at: Any = item
            for part in parts:
                at = at[int(part)] if isinstance(at, list) else at[part]
            if step["op"] == "remove":
                del at[last]
            elif last == "-":
                at.append(copy.deepcopy(step["value"]))
            else:
                at[last] = copy.deepcopy(step["value"])


def transform(item: Manifest, spec: Mapping[str, Any]) -> None:
    if "namespace" in spec:
        item["metadata"]["namespace"] = spec["namespace"]
        for subject in item.get("subjects", []):
            subject["namespace"] = spec["namespace"]
    for size in spec.get("replicas", []):
        if item["metadata"]["name"] == size["name"] and item["kind"] in (
            "Deployment",
            "StatefulSet",
        ):
            item["spec"]["replicas"] = size["count"]
    for image in spec.get("images", []):
        for container in containers(item):
            if container["image"].partition(":")[0] == image["name"]:
                container["image"] = f"{image['newName']}:{image['newTag']}"


def pod(item: Manifest) -> Manifest:
    """The pod template's spec; empty for kinds without one."""
    template = (
        item.get("spec", {}).get("template", {}) if isinstance(item.get("spec"), dict) else {}
    )
    return dict(template.get("spec", {}))


def containers(item: Manifest) -> list[Manifest]:
    return list(pod(item).get("containers", []))


def of(items: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {item["metadata"]["name"]: item for item in items if item["kind"] == kind}


RENDERED = {name: render(K8S / "overlays" / name) for name in OVERLAYS}


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> list[Manifest]:
    return RENDERED[request.param]


# Schemas.


@pytest.fixture(scope="session")
def kubernetes() -> Path:
    spec = util.find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        missing("the package kubernetes-validate")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "kubernetes-json-schema" / KUBERNETES


@pytest.fixture(scope="session")
def keda() -> Path:
    go = shutil.which("go")
    if go is None:
        missing("the go command")
    done = subprocess.run(
        [str(go), "mod", "download", "-json", KEDA], capture_output=True, text=True, check=False
    )
    if done.returncode:
        missing(f"KEDA's source ({done.stderr.strip()[:100]})")
    return Path(json.loads(done.stdout)["Dir"])


@cache
def definitions(schemas: Path) -> Registry[Any]:
    text = (schemas / "_definitions.json").read_text(encoding="utf-8")
    resource = DRAFT202012.create_resource(json.loads(text))
    registry: Registry[Any] = Registry().with_resource("_definitions.json", resource)
    return registry.crawl()


@cache
def scaled_object_schema(source: Path) -> Any:
    with (source / "config/crd/bases/keda.sh_scaledobjects.yaml").open(encoding="utf-8") as file:
        crd = yaml.load(file, Loader=yaml.CSafeLoader)
    (version,) = [each for each in crd["spec"]["versions"] if each["name"] == "v1alpha1"]
    schema = closed(version["schema"]["openAPIV3Schema"])
    # ObjectMeta is the API server's own.
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def check_kubernetes(item: Manifest, schemas: Path) -> None:
    group, _, version = item["apiVersion"].rpartition("/")
    prefix = f"{group.partition('.')[0]}-" if group else ""
    schema = json.loads(
        (schemas / f"{item['kind'].lower()}-{prefix}{version}.json").read_text(encoding="utf-8")
    )
    jsonschema.Draft202012Validator(schema, registry=definitions(schemas)).validate(item)


def closed(schema: Any) -> Any:
    """A CRD's schema with unknown fields forbidden, as the API server prunes them silently."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(item) for name, item in schema.items()}
    open_ended = (
        schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    )
    if isinstance(schema.get("properties"), dict) and "type" in schema and not open_ended:
        made["additionalProperties"] = False
    return made


def check_keda(item: Manifest, source: Path) -> None:
    jsonschema.Draft202012Validator(scaled_object_schema(source)).validate(item)
    for trigger in item["spec"]["triggers"]:
        fields = trigger_fields(source, trigger["type"])
        assert trigger["metadata"].keys() <= fields, trigger
        assert all(isinstance(value, str) for value in trigger["metadata"].values()), trigger


def trigger_fields(source: Path, kind: str) -> set[str]:
    """Metadata names that a scaler reads, out of its struct's tags."""
    file = {"kafka": "kafka_scaler", "prometheus": "prometheus_scaler", "cpu": "cpu_memory_scaler"}
    code = (source / "pkg/scalers" / f"{file[kind]}.go").read_text(encoding="utf-8")
    tags = re.findall(r'keda:"name=([^,"]+),\s*order=([^,"]+)', code)
    assert tags, f"KEDA's {kind} scaler is not read right"
    fields = set()
    for name, order in tags:
        if "triggerMetadata" in order:
            fields |= {part.strip() for part in name.split(";")}
        if "resolvedEnv" in order:
            fields |= {f"{part.strip()}FromEnv" for part in name.split(";")}
    return fields


def test_every_manifest_is_what_kubernetes_and_keda_expect(
    overlay: list[Manifest], kubernetes: Path, request: pytest.FixtureRequest
) -> None:
    assert overlay
    for item in overlay:
        if item["apiVersion"].startswith("keda.sh/"):
            check_keda(item, request.getfixturevalue("keda"))
        else:
            check_kubernetes(item, kubernetes)


@pytest.mark.parametrize(
    "change",
    [
        lambda item: item["spec"].update(replica=3),
        lambda item: item["spec"]["template"]["spec"]["containers"][0].update(ports="9100"),
        lambda item: item["spec"]["template"]["spec"]["containers"][0]["livenessProbe"].update(x=1),
    ],
    ids=["unknown field", "wrong type", "unknown nested field"],
)
def test_the_kubernetes_check_sees_mistakes(change: Any, kubernetes: Path) -> None:
    item = copy.deepcopy(of(RENDERED["prod"], "Deployment")["crawl-fetcher"])
    check_kubernetes(item, kubernetes)
    change(item)
    with pytest.raises(jsonschema.ValidationError):
        check_kubernetes(item, kubernetes)


def test_the_keda_check_sees_mistakes(keda: Path) -> None:
    item = copy.deepcopy(of(RENDERED["prod-keda"], "ScaledObject")["crawl-parser"])
    check_keda(item, keda)
    wrong = copy.deepcopy(item)
    wrong["spec"]["minReplicas"] = 3
    with pytest.raises(jsonschema.ValidationError):
        check_keda(wrong, keda)
    item["spec"]["triggers"][0]["metadata"]["lagTreshold"] = "1"
    with pytest.raises(AssertionError):
        check_keda(item, keda)


@pytest.mark.parametrize("name", OVERLAYS)
def test_kustomize_renders_the_same(name: str) -> None:
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    command = shutil.which("kustomize") or shutil.which(
        cached / "crawlstream" / "bin" / "kustomize"
    )
    if command is None:
        pytest.skip("kustomize is not installed: only our own rendering is checked")
    text = subprocess.run(
        [command, "build", str(K8S / "overlays" / name)], capture_output=True, text=True, check=True
    ).stdout
    # ConfigMaps get a hash of their content as a suffix, here and where they are named.
    text = re.sub(r"crawl-settings-[a-z0-9]{10}\b", "crawl-settings", text)
    theirs = [item for item in yaml.safe_load_all(text) if item]

    def key(item: Manifest) -> tuple[str, str]:
        return item["kind"], item["metadata"]["name"]

    assert sorted(theirs, key=key) == sorted(RENDERED[name], key=key)


# What the manifests say, against our code.


def workloads(items: list[Manifest]) -> Iterator[Manifest]:
    for item in items:
        if item["metadata"]["name"].startswith("crawl-") and containers(item):
            yield item


def test_settings_in_manifests_are_settings(overlay: list[Manifest]) -> None:
    data = of(overlay, "ConfigMap")["crawl-settings"]["data"]
    settings = load(data)
    settings.identity()
    for item in workloads(overlay):
        for variable in containers(item)[0].get("env", []):
            load({**data, variable["name"]: "dedup-0"})


def test_production_topics_have_three_copies(overlay: list[Manifest]) -> None:
    settings = load(of(overlay, "ConfigMap")["crawl-settings"]["data"])
    if "kafka" not in of(overlay, "StatefulSet"):
        assert settings.replication_factor == 3


def test_pods_may_do_little(overlay: list[Manifest]) -> None:
    for item in workloads(overlay):
        security = pod(item)["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers(item):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]
            assert "cpu" not in container["resources"]["limits"]


def test_workers_are_given_the_time_to_drain(overlay: list[Manifest]) -> None:
    settings = load(of(overlay, "ConfigMap")["crawl-settings"]["data"])
    for item in (*of(overlay, "Deployment").values(), *of(overlay, "StatefulSet").values()):
        if item["metadata"]["name"] in ("crawl-fetcher", "crawl-parser", "crawl-dedup"):
            grace = pod(item)["terminationGracePeriodSeconds"]
            assert grace >= settings.drain_timeout_s + 30


def test_probes_ask_the_endpoints_that_roles_have(overlay: list[Manifest]) -> None:
    for item in workloads(overlay):
        if item["kind"] == "Job":
            continue
        (container,) = containers(item)
        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
        assert {"name": "metrics", "containerPort": 9100} in container["ports"]


def test_only_one_thing_scales_a_deployment(overlay: list[Manifest]) -> None:
    kinds = {"HorizontalPodAutoscaler", "ScaledObject"}
    scaled = [item["spec"]["scaleTargetRef"]["name"] for item in overlay if item["kind"] in kinds]
    if autoscaler := of(overlay, "Deployment").get("crawl-autoscaler"):
        text = " ".join(containers(autoscaler)[0]["command"])
        scaled += [f"crawl-{role}" for role in re.findall(r"--size=(\w+)=", text)]
    assert len(scaled) == len(set(scaled))
    everything = of(overlay, "Deployment") | of(overlay, "StatefulSet")
    for name in scaled:
        # A number in the manifest would undo the scaler's at every apply.
        assert "replicas" not in everything[name]["spec"]


def test_the_three_ways_to_scale_are_exclusive() -> None:
    for name in ("prod-keda", "prod-hpa", "prod-autoscaler"):
        ways = [
            bool(of(RENDERED[name], "ScaledObject")),
            bool(of(RENDERED[name], "HorizontalPodAutoscaler")),
            "crawl-autoscaler" in of(RENDERED[name], "Deployment"),
        ]
        assert sum(ways) == 1


def test_keda_avoids_the_known_traps() -> None:
    objects = of(RENDERED["prod-keda"], "ScaledObject")
    for item in objects.values():
        assert item["spec"]["minReplicaCount"] >= 1
        behavior = item["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        assert behavior["scaleDown"]["stabilizationWindowSeconds"] >= 300
        for trigger in item["spec"]["triggers"]:
            if trigger["type"] == "kafka":
                values = trigger["metadata"]
                assert values["offsetResetPolicy"] == "earliest"
                assert values["topic"]
                for name in ("excludePersistentLag", "scaleToZeroOnInvalidOffset"):
                    assert values[name] == "false"
    assert {trigger["type"] for trigger in objects["crawl-fetcher"]["spec"]["triggers"]} == {
        "prometheus",
        "cpu",
    }, "fetchers are never scaled by lag"
    pairs = {
        (trigger["metadata"]["consumerGroup"], trigger["metadata"]["topic"])
        for item in objects.values()
        for trigger in item["spec"]["triggers"]
        if trigger["type"] == "kafka"
    }
    assert pairs == {(PARSER_GROUP, FETCH_RESULTS), (DEDUP_APP, URLS)}


def test_plain_hpa_values() -> None:
    for item in of(RENDERED["prod-hpa"], "HorizontalPodAutoscaler").values():
        assert (item["spec"]["minReplicas"], item["spec"]["maxReplicas"]) == (3, 20)
        (metric,) = item["spec"]["metrics"]
        assert metric["resource"]["target"]["averageUtilization"] == 70


def test_the_autoscaler_may_change_sizes_and_nothing_else() -> None:
    (role,) = of(RENDERED["prod-autoscaler"], "Role").values()
    (rule,) = role["rules"]
    assert rule["resources"] == ["deployments/scale"]
    assert set(rule["verbs"]) == {"get", "patch"}
    assert set(rule["resourceNames"]) == {"crawl-fetcher", "crawl-parser"}


def test_fetchers_reach_public_addresses_only(overlay: list[Manifest]) -> None:
    import ipaddress

    policy = of(overlay, "NetworkPolicy")["crawl-web"]
    (rule,) = policy["spec"]["egress"]
    inside = [
        "10.1.2.3", "172.20.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "127.0.0.1",
        "0.0.0.0", "fd00::1", "fe80::1", "::1", "2002::1", "64:ff9b::a00:1",
    ]  # fmt: skip

    def allowed(text: str) -> bool:
        address = ipaddress.ip_address(text)
        return any(
            address in ipaddress.ip_network(block["ipBlock"]["cidr"])
            and not any(
                address in ipaddress.ip_network(each) for each in block["ipBlock"]["except"]
            )
            for block in rule["to"]
        )

    assert not [text for text in inside if allowed(text)]
    assert allowed("93.184.215.14")
    assert allowed("2606:2800:21f:cb07:6820:80da:af6b:8b2c")
    everywhere = of(overlay, "NetworkPolicy")["crawl-deny"]["spec"]
    assert set(everywhere["policyTypes"]) == {"Ingress", "Egress"}


def test_every_role_has_a_disruption_budget(overlay: list[Manifest]) -> None:
    assert of(overlay, "PodDisruptionBudget").keys() == {
        "crawl-fetcher",
        "crawl-parser",
        "crawl-dedup",
    }


def test_every_selector_finds_its_pods(overlay: list[Manifest]) -> None:
    labels = [
        item["spec"]["template"]["metadata"]["labels"] for item in overlay if containers(item)
    ]
    for item in overlay:
        spec = item.get("spec", {})
        selectors = {
            "Service": spec.get("selector"),
            "NetworkPolicy": spec.get("podSelector", {}).get("matchLabels"),
            "PodDisruptionBudget": spec.get("selector", {}).get("matchLabels"),
        }
        wanted = selectors.get(item["kind"])
        if wanted:
            assert any(wanted.items() <= each.items() for each in labels), item["metadata"]["name"]


# compose.yaml.


COMPOSE: Manifest = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
OURS = ("topics", "dedup", "fetcher", "parser", "crawl", "autoscaler", "sample")


def test_compose_publishes_on_loopback_only() -> None:
    ports = [port for item in COMPOSE["services"].values() for port in item.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_compose_holds_no_secret() -> None:
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    assert not re.search(
        r"(?i)(password|secret|token)\s*:\s*\S", text.replace("CRAWL_AGENT to a", "")
    )


@pytest.mark.parametrize("name", OURS)
def test_compose_services_of_ours_may_do_little(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "user" not in service, "the image's own user is not root"


def test_compose_images_are_pinned() -> None:
    for name, service in COMPOSE["services"].items():
        if name not in OURS:
            default = re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", service["image"])
            assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", default), name


def test_compose_settings_are_settings() -> None:
    fields = {f"CRAWL_{name.upper()}" for name in Settings.model_fields}
    for name in OURS:
        used = {key for key in COMPOSE["services"][name]["environment"] if key.startswith("CRAWL_")}
        assert used <= fields, name


def test_compose_gives_workers_the_time_to_drain() -> None:
    for name in ("dedup", "fetcher", "parser"):
        grace = int(COMPOSE["services"][name]["stop_grace_period"].removesuffix("s"))
        assert grace >= load({}).drain_timeout_s + 15


# Prometheus, Grafana, the runbook, the image.


def declared() -> set[str]:
    names = set()
    for metric in {item for role in metrics.ROLES.values() for item in role}:
        names.add(metric.name)
        if metric.kind == "histogram":
            names |= {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
    return names | {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}


def expressions() -> Iterator[tuple[str, str]]:
    for rule in alerts():
        yield rule["alert"], rule["expr"]
    board = json.loads((DEPLOY / "grafana/dashboards/crawl.json").read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for item in of(RENDERED["prod-keda"], "ScaledObject").values():
        for trigger in item["spec"]["triggers"]:
            if trigger["type"] == "prometheus":
                yield item["metadata"]["name"], trigger["metadata"]["query"]


def alerts() -> list[Manifest]:
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in rules["groups"] for rule in group["rules"]]


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_expressions_use_metrics_that_exist(where: str, expression: str) -> None:
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]', "", expression)
    used = set(re.findall(r"\b(?:crawler|http|process)_\w+|\bup\b", bare))
    assert used, where
    assert used <= declared(), where


def test_reasons_in_alerts_exist() -> None:
    (alert,) = [rule for rule in alerts() if rule["alert"] == "CrawlDeadLettersOfOurs"]
    (names,) = re.findall(r'reason=~"([^"]+)"', alert["expr"])
    assert set(names.split("|")) <= {str(reason.value) for reason in Reason}


def test_every_alert_has_an_entry_in_the_runbook() -> None:
    entries = re.findall(r"^## (\w+)$", (DEPLOY / "runbook.md").read_text("utf-8"), re.MULTILINE)
    names = [rule["alert"] for rule in alerts()]
    assert entries == names
    for rule in alerts():
        assert rule["annotations"]["runbook"] == f"deploy/runbook.md#{rule['alert'].lower()}"
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("page", "ticket")


def test_the_image_has_a_user_a_health_check_and_its_settings() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK ", text, re.MULTILINE)
    pairs = dict(re.findall(r"\b(CRAWL_\w+)=(\S+)", text))
    load({name: value for name, value in pairs.items() if name.startswith("CRAWL_")})


def lock(path: Path) -> dict[str, str]:
    blocks = re.split(r"\n(?=\S)", path.read_text(encoding="utf-8").strip())
    return {block.partition("==")[0]: block for block in blocks}


def test_the_images_lock_agrees_with_the_projects() -> None:
    """Made by: uv pip compile pyproject.toml --extra kubernetes --constraint requirements.lock."""
    image, project = lock(DEPLOY / "requirements.lock"), lock(ROOT / "requirements.lock")
    for name in image.keys() & project.keys():
        assert image[name] == project[name], f"{name}: make deploy/requirements.lock anew"
    assert {"aiokafka", "faust-streaming", "kubernetes"} <= image.keys()
    assert "pytest" not in image
    assert "://" not in (DEPLOY / "requirements.lock").read_text(encoding="utf-8")


def test_the_autoscalers_defaults_are_those_that_the_manifests_explain() -> None:
    command = containers(of(RENDERED["prod-autoscaler"], "Deployment")["crawl-autoscaler"])[0][
        "command"
    ]
    assert f"--drain={Rules().drain_target_s:.0f}" in command
