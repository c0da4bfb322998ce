"""Prometheus's alerts, Grafana's dashboard and KEDA's queries against our metrics; the runbook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from schemas.reasons import Reason
from streams.telemetry import metrics
from tests.contract.kustomize import DEPLOY, RENDERED, Manifest, of


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
