"""One URL as the fetcher would ask for it, step by step, without Kafka: `crawl fetch`."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import httpx
from rich.console import Console

from fetchers.http.body import BodySink
from fetchers.http.decode import ACCEPT_ENCODING
from fetchers.http.transport import Transport
from fetchers.policy import politeness
from fetchers.policy.head import Head, header
from fetchers.policy.outcome import REDIRECT_STATUSES, judge_status, media_type, resolve_location
from fetchers.policy.robots import is_allowed
from fetchers.worker.messages import request_fields, user_agent
from fetchers.worker.robots_cache import RobotsCache, RobotsFetch
from schemas.admission import MAX_REDIRECTS
from schemas.crawl import CrawlSpec
from schemas.reasons import REASONS, Reason
from schemas.url import CrawlUrl, origin_of, path_of
from streams.telemetry.plain import plain

if TYPE_CHECKING:
    from fetchers.http.answer import Answer
    from streams.settings import Settings


async def check(url: CrawlUrl, settings: Settings, *, method: str = "GET") -> dict[str, Any]:
    """Fetch a URL and the redirects from it; each hop with its robots.txt and its pause.

    The report is JSON-ready but for `body`, the decoded body as bytes.
    """
    agent, contact = settings.identity()
    spec = CrawlSpec(crawl="check", delay_s=settings.default_delay_s)
    transport = Transport(settings)
    robots = RobotsCache(transport, ttl_s=settings.robots_ttl_s)
    fields = request_fields(user_agent(agent, contact), ACCEPT_ENCODING)
    report: dict[str, Any] = {"url": url.href, "user_agent": user_agent(agent, contact)}
    hops: list[dict[str, Any]] = []
    report["hops"] = hops
    try:
        target: CrawlUrl | None = url
        while target is not None:
            hop, target = await _hop(
                target, transport, robots, fields, agent, spec, settings, method
            )
            report["body"] = hop.pop("body")
            hops.append(hop)
            if len(hops) > MAX_REDIRECTS:
                hop["outcome"] = Reason.TOO_MANY_REDIRECTS.value
                break
    finally:
        await transport.close()
    last = hops[-1]
    report["outcome"] = last["outcome"]
    report["kind"] = last.get("kind", "result")
    return report


async def _hop(
    url: CrawlUrl,
    transport: Transport,
    robots: RobotsCache,
    fields: bytes,
    agent: str,
    spec: CrawlSpec,
    settings: Settings,
    method: str,
) -> tuple[dict[str, Any], CrawlUrl | None]:
    """One URL; gives what happened and where it points (None: nowhere to go)."""
    hop: dict[str, Any] = {"url": url.href, "addresses": await _addresses(transport, url.host)}
    origin = origin_of(url.href)
    entry = robots.fresh(origin, agent, time.monotonic())
    if entry is None:
        entry, fetched = await robots.fetch(origin, agent, fields, _no_wait)
        hop["robots"] = _robots_line(fetched)
    delay_s = politeness.base_delay(
        spec.delay_s,
        entry.robots.crawl_delay_s if entry.robots else None,
        settings.crawl_delay_cap_s,
    )
    hop["delay_s"] = delay_s
    hop["sitemaps"] = list(entry.sitemaps)
    hop["body"] = b""
    if entry.denied or entry.robots is None:
        return _failed(hop, entry.reason or Reason.ROBOTS_UNREACHABLE, entry.detail), None
    hop["allowed"] = is_allowed(entry.robots, path_of(url.href))
    if not hop["allowed"]:
        return _failed(hop, Reason.ROBOTS_DENIED, "disallowed by robots.txt"), None
    await asyncio.sleep(delay_s)

    def judge(head: Head) -> Reason | bool:
        return judge_status(head.status, spec.accept, head.headers)

    with BodySink() as sink:
        answer = await transport.fetch(url.href, fields, sink, judge=judge, method=method)
        hop["body"] = sink.head(settings.max_body_bytes)
        hop["body_bytes"] = sink.size
    _note(hop, answer)
    location = header(answer.headers, "location")
    if answer.status in REDIRECT_STATUSES and location:
        target = resolve_location(location, url.href)
        if isinstance(target, CrawlUrl):
            hop["location"] = target.href
            return hop, target
        hop["location"] = location
        hop["detail"] = f"not followed: {target.reason.value} {target.detail}".strip()
    return hop, None


def _note(hop: dict[str, Any], answer: Answer) -> None:
    hop["status"] = answer.status
    hop["http_version"] = answer.version
    hop["address"] = answer.address
    hop["headers"] = [list(pair) for pair in answer.headers]
    hop["content_type"] = media_type(answer.headers)
    hop["wire_bytes"] = answer.wire_bytes
    hop["truncated"] = answer.truncated
    hop["connect_s"] = round(answer.sent_at - answer.began_at, 4)
    hop["total_s"] = round(answer.ended_at - answer.began_at, 4)
    if answer.reason is not None:
        _failed(hop, answer.reason, answer.detail or f"status {answer.status}")
    else:
        hop["outcome"] = "result"


def _failed(hop: dict[str, Any], reason: Reason, detail: str) -> dict[str, Any]:
    row = REASONS[reason]
    hop["outcome"] = reason.value
    hop["kind"] = row.kind
    hop["detail"] = detail
    hop["attempts"] = row.max_attempts if row.retriable else 1
    return hop


async def _addresses(transport: Transport, host: str) -> list[str]:
    """Addresses that would be dialled; a text in parentheses when there are none."""
    if host.startswith("[") or host[-1:].isdigit():
        return [host.strip("[]")]
    try:
        return list(await transport.resolver.addresses(host))
    except httpx.ConnectError as error:
        return [f"({error})"]


async def _no_wait(_host: str) -> None:
    return


def _robots_line(fetched: RobotsFetch) -> str:
    url, answer = fetched.url, fetched.answer
    if answer.reason is not None and not answer.status:
        return f"{url}: {answer.reason.value} ({answer.detail})"
    exceeded = ", ".join(sorted(fetched.exceeded))
    return f"{url}: {answer.status}" + (f", not obeyed whole: {exceeded}" if exceeded else "")


def show(report: dict[str, Any], *, headers: bool) -> None:
    """Print a report for people."""
    console = Console(highlight=False, soft_wrap=True)

    def line(name: str, value: object) -> None:
        console.print(plain(f"  {name:12} {value}"), markup=False)

    for hop in report["hops"]:
        console.print(hop["url"], style="bold", markup=False)
        line("addresses", ", ".join(hop["addresses"]))
        if "robots" in hop:
            line("robots.txt", hop["robots"])
        if "allowed" in hop:
            line("allowed", "yes" if hop["allowed"] else "no")
        line("delay", f"{hop['delay_s']:g} s")
        if "status" in hop:
            line("status", f"{hop['status']} HTTP/{hop['http_version']} from {hop['address']}")
            size = f"{hop['body_bytes']} bytes ({hop['wire_bytes']} on the wire)"
            line("body", size + (", truncated" if hop["truncated"] else ""))
            line("type", hop["content_type"] or "not said")
            line("time", f"{hop['total_s']:g} s, of it {hop['connect_s']:g} s to connect")
        if "location" in hop:
            line("location", hop["location"])
        detail = f": {hop['detail']}" if "detail" in hop else ""
        line("outcome", hop["outcome"] + detail)
        if headers:
            for name, value in hop.get("headers", ()):
                console.print(plain(f"    {name}: {value}"), markup=False)
