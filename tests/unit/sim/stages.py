"""Fetchers and parsers: what each does with a message, and the messages that come of it."""

from __future__ import annotations

from typing import Any, Final

from fetchers.policy.retry import after_failure, longest_wait_s
from schemas.reasons import Reason
from schemas.topics import (
    DEAD_LETTERS,
    FETCH_REQUESTS,
    FETCH_RESULTS,
    FETCHER_GROUP,
    PARSER_GROUP,
    RECORDS,
    RETRY_TIERS,
    URLS,
)
from tests.unit.sim.web import BROKEN, GONE, OK
from tests.unit.sim.workers import Delivery, Outs, Scene, Worker

TIERS_S: Final = (0.5, 2.0, 10.0, 60.0, 360.0)


class Fetcher(Worker):
    group_name = FETCHER_GROUP
    topics = (FETCH_REQUESTS, *RETRY_TIERS)
    window = 200

    def __init__(self, scene: Scene, tag: str) -> None:
        super().__init__(scene, tag)
        self.limit = scene.fetch_limit

    def wait_s(self, delivery: Delivery) -> float:
        if delivery.source.topic == FETCH_REQUESTS:
            return 0.0
        wait_s = float(delivery.value["not_before"] - self.wall())
        if not self.scene.protections.bounded_waits:
            return wait_s
        tier = RETRY_TIERS.index(delivery.source.topic)
        return min(wait_s, longest_wait_s(tier, TIERS_S))

    def allow(self, delivery: Delivery) -> None:
        left = self.scene.web.planned(delivery.value["url"]) - delivery.value["attempt"] + 1
        self.scene.allowance += max(left, 0)

    def work(self, delivery: Delivery) -> None:
        chance = self.kafka.world.chance()
        slow = 8.0 if chance > 0.9 else 1.0
        self.process.after(self.scene.fetch_s * chance * slow, self._fetched, delivery)

    def _fetched(self, delivery: Delivery) -> None:
        request = delivery.value
        url, attempt = request["url"], request["attempt"]
        answer = self.scene.web.answer(url, attempt)
        host = request["host"].encode()
        if answer.status in (BROKEN, GONE):
            reason = Reason.HTTP_500 if answer.status == BROKEN else Reason.HTTP_4XX
            retry = after_failure(reason, attempt, tiers_s=TIERS_S, jitter=0.0)
            if retry is None:
                letter = {"url": url, "reason": reason.value}
                self.deliver(delivery, [(DEAD_LETTERS, host, letter)], {"failed": 1})
                return
            later = {
                **request,
                "attempt": attempt + 1,
                "not_before": self.wall() + retry.wait_s,
            }
            self.deliver(delivery, [(RETRY_TIERS[retry.tier], host, later)], {"retries": 1})
            return
        result = {
            **request,
            "fetch_id": (delivery.source, delivery.offset),
            "status": answer.status,
            "links": answer.links,
        }
        outs: Outs = [(FETCH_RESULTS, request["url_id"], result)]
        if answer.location:
            outs += batches((answer.location,), request)
        self.deliver(delivery, outs, {"pages": 1})


class Parser(Worker):
    group_name = PARSER_GROUP
    topics = (FETCH_RESULTS,)
    window = 50
    limit = 20

    def work(self, delivery: Delivery) -> None:
        self.process.after(0.05 * self.kafka.world.chance(), self._parsed, delivery)

    def _parsed(self, delivery: Delivery) -> None:
        result = delivery.value
        record = {name: result[name] for name in ("url", "fetch_id", "status", "links")}
        outs: Outs = [(RECORDS, result["url_id"], record)]
        if result["status"] == OK:
            outs += batches(result["links"], result)
        self.deliver(delivery, outs, {"records": 1})


def batches(urls: tuple[str, ...], origin: dict[str, Any]) -> Outs:
    """Discovered URLs as messages for `urls`, one a host."""
    by_host: dict[str, list[str]] = {}
    for url in urls:
        by_host.setdefault(url.split("/")[2], []).append(url)
    return [
        (URLS, host.encode(), batch(host, found, depth=origin["depth"] + 1))
        for host, found in by_host.items()
    ]


def batch(host: str, urls: list[str], *, depth: int) -> dict[str, Any]:
    """A `schemas.records.UrlBatch`."""
    return {
        "crawl": "default",
        "host": host,
        "via": "link" if depth else "seed",
        "depth": depth,
        "scope_host": host,
        "referrer": "",
        "redirects": [],
        "seeded_at": 1,
        "discovered_at": 1,
        "links": [{"url": url, "url_id": None, "priority": 0, "lastmod_at": None} for url in urls],
    }
