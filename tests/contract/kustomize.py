"""What `kustomize build` gives for the overlays of deploy/k8s, by the part of it that they use.

That is: resources, components, patches, images, replicas, namespace, configMapGenerator.
Where the kustomize command is installed, test_contract_k8s_schemas.py compares the two.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
K8S = DEPLOY / "k8s"
OVERLAYS = ("dev", "prod", "prod-keda", "prod-hpa", "prod-autoscaler")

Manifest = dict[str, Any]


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
