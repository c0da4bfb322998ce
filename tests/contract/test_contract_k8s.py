"""What the manifests of deploy/k8s say, against our code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from schemas.topics import DEDUP_APP, FETCH_RESULTS, PARSER_GROUP, URLS
from streams.autoscale.model import Rules
from streams.settings import load
from tests.contract.kustomize import RENDERED, Manifest, containers, of, pod


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


def test_the_autoscalers_defaults_are_those_that_the_manifests_explain() -> None:
    command = containers(of(RENDERED["prod-autoscaler"], "Deployment")["crawl-autoscaler"])[0][
        "command"
    ]
    assert f"--drain={Rules().drain_target_s:.0f}" in command
