"""compose.yaml: who may do what, and against our settings."""

from __future__ import annotations

import re

import pytest
import yaml

from streams.settings import Settings, load
from tests.contract.kustomize import ROOT, Manifest

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
