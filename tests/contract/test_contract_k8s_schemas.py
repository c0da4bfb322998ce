"""deploy/k8s against the schemas of Kubernetes and KEDA, and our rendering against kustomize's.

Kubernetes's schemas come with the package kubernetes-validate (strict: unknown fields are errors),
KEDA's from its source, which the Go command fetches as a module.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from tests.contract.kustomize import K8S, OVERLAYS, RENDERED, Manifest, of

KUBERNETES = "v1.35.0-local-strict"
KEDA = "github.com/kedacore/keda/v2@v2.21.0"


def missing(what: str) -> None:
    """Skip on a user's machine, saying what is missing; in CI that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}: must be there in CI")
    pytest.skip(f"{what} is not installed: this is checked in CI")


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
