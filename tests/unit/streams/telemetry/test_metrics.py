"""The metrics table and its HTTP door."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from schemas.errors import ConfigError
from schemas.reasons import Reason
from streams.telemetry.metrics import ROLES, Health, Metrics, MetricsServer


@pytest.mark.parametrize("role", ROLES)
def test_names_follow_prometheus_conventions(role: str) -> None:
    names = [metric.name for metric in ROLES[role]]
    assert len(names) == len(set(names))
    for metric in ROLES[role]:
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric.name
        assert bool(metric.buckets) == (metric.kind == "histogram"), metric.name
        assert metric.help.endswith("."), metric.name
        assert not {"url", "host", "crawl"} & set(metric.labels), metric.name


def test_completion_counters_become_dead_letters_and_rejections() -> None:
    metrics = Metrics("fetcher")
    metrics.count(
        {
            "a": {f"failed.{Reason.HTTP_4XX}": 2, "pages": 5},
            "b": {f"disregarded.{Reason.ROBOTS_DENIED}": 1, f"rejected.{Reason.TRAP}": 4},
        }
    )
    text = metrics.render().decode()
    assert 'crawler_dead_letters_total{reason="http_4xx"} 2.0' in text
    assert 'crawler_dead_letters_total{reason="robots_denied"} 1.0' in text
    assert 'crawler_rejected_urls_total{reason="trap"} 4.0' in text


def test_refreshers_run_before_each_scrape_and_clear_drops_old_series() -> None:
    metrics = Metrics("parser")
    lags = iter([{"0": 5}, {"1": 7}])

    def refresh(target: Metrics) -> None:
        target.clear("crawler_consumer_lag")
        for partition, lag in next(lags).items():
            target.set("crawler_consumer_lag", lag, "parsers", "fetch-results", partition)

    metrics.on_scrape(refresh)
    assert 'partition="0",topic="fetch-results"} 5.0' in metrics.render().decode()
    again = metrics.render().decode()
    assert 'partition="1",topic="fetch-results"} 7.0' in again
    assert 'partition="0"' not in again


def fetch(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_health_is_told_apart_from_readiness() -> None:
    state = Health(ready=False, problems=())
    server = MetricsServer(Metrics("fetcher"), lambda: state, host="127.0.0.1", port=0)
    server.start()
    try:
        base = f"http://127.0.0.1:{server.port}"
        assert fetch(f"{base}/healthz")[0] == 200
        assert fetch(f"{base}/readyz")[0] == 503
        state = Health(ready=True, problems=("no successful commit for 99 s",))
        status, body = fetch(f"{base}/healthz")
        assert status == 503
        assert json.loads(body)["problems"] == ["no successful commit for 99 s"]
        assert fetch(f"{base}/readyz")[0] == 200
        assert b"http_requests_in_flight" in fetch(f"{base}/metrics")[1]
        assert fetch(f"{base}/other")[0] == 404
        with pytest.raises(ConfigError, match="CRAWL_METRICS_PORT"):
            MetricsServer(Metrics("fetcher"), lambda: state, host="127.0.0.1", port=server.port)
    finally:
        server.stop()
