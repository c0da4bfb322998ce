"""Fetchers and parsers: what each does with a message, and the messages that come of it."""

from __future__ import annotations

from typing import Any, Final

from fetchers.policy.cookies import CookieJar
from fetchers.policy.outcome import Endless, Redirect, came_round_since, judge_redirect
from fetchers.policy.retry import after_failure, longest_wait_s
from schemas.admission import compile_rules
from schemas.crawl import CrawlSpec
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
from schemas.url import chain_ids
from streams.kafka.messages import Source
from tests.unit.sim.web import BROKEN, GONE, OK
from tests.unit.sim.workers import Delivery, Outs, Scene, Worker

RULES: Final = compile_rules(CrawlSpec(crawl="default", scope="any", cookies=True))
TIERS_S: Final = (0.5, 2.0, 10.0, 60.0, 360.0)


class Fetcher(Worker):
    group_name = FETCHER_GROUP
    topics = (FETCH_REQUESTS, *RETRY_TIERS)
    window = 200

    def __init__(self, scene: Scene, tag: str) -> None:
        super().__init__(scene, tag)
        self.limit = scene.fetch_limit
        self.jar = CookieJar()

    def assigned(self, generation: int, sources: frozenset[Source], joins: int) -> None:
        super().assigned(generation, sources, joins)
        self.jar.forget_asked()

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
        url, attempt, host = request["url"], request["attempt"], request["host"]
        hops = len(request["redirects"])
        cookie = self.jar.field(url, host, 0.0)
        alike = (
            self.jar.asked_alike(url, hops, cookie) or not self.scene.protections.compared_cookies
        )
        chain = chain_ids("default", request["redirects"])
        identity = request["url_id"]
        if alike and identity in chain and not came_round_since(identity, chain):
            self._give_up(delivery, "loop")
            return
        answer = self.scene.web.answer(url, attempt, cookie)
        if answer.status in (BROKEN, GONE):
            reason = Reason.HTTP_500 if answer.status == BROKEN else Reason.HTTP_4XX
            retry = after_failure(reason, attempt, tiers_s=TIERS_S, jitter=0.0)
            if retry is None:
                self._give_up(delivery, reason.value)
                return
            later = {
                **request,
                "attempt": attempt + 1,
                "not_before": self.wall() + retry.wait_s,
            }
            outs: Outs = [(RETRY_TIERS[retry.tier], host.encode(), later)]
            self.deliver(delivery, outs, {"retries": 1})
            return
        redirect = judge_redirect(RULES, request, answer.status, (("location", answer.location),))
        self.jar.store(url, host, [answer.sets], 0.0)
        if redirect is not None:
            self.jar.redirected(url, hops, cookie)
        if isinstance(redirect, Endless) or (redirect is not None and redirect.same):
            self._give_up(delivery, "loop" if isinstance(redirect, Redirect) else "limit")
            return
        result = {
            **request,
            "fetch_id": (delivery.source, delivery.offset),
            "status": answer.status,
            "links": answer.links,
        }
        outs = [(FETCH_RESULTS, request["url_id"], result)]
        if redirect is not None and redirect.target is not None:
            target = redirect.target
            found = batch(target.host, [target.href], depth=request["depth"]) | {
                "via": "redirect",
                "redirects": [*request["redirects"], url],
            }
            outs.append((URLS, target.host.encode(), found))
        self.deliver(delivery, outs, {"pages": 1})

    def _give_up(self, delivery: Delivery, reason: str) -> None:
        letter = {"url": delivery.value["url"], "reason": reason}
        host = delivery.value["host"].encode()
        self.deliver(delivery, [(DEAD_LETTERS, host, letter)], {"failed": 1})


class Parser(Worker):
    group_name = PARSER_GROUP
    topics = (FETCH_RESULTS,)
    window = 50
    limit = 20

    def work(self, delivery: Delivery) -> None:
        """Results of one URL wait for each other, as in `parsers.worker.stage`."""
        key = delivery.value["url_id"]
        if any(
            one.begun and one.offset < delivery.offset and one.value["url_id"] == key
            for one in self.held
        ):
            self.process.after(0.05, self._again, delivery)
            return
        self.process.after(0.05 * self.kafka.world.chance(), self._parsed, delivery)

    def _again(self, delivery: Delivery) -> None:
        if delivery.epoch == self.epoch:
            self.work(delivery)

    def _parsed(self, delivery: Delivery) -> None:
        result = delivery.value
        names = ("url", "fetch_id", "status", "links", "redirects")
        record = {name: result[name] for name in names}
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
