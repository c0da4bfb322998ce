"""`crawl fetch URL`."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import typer


def fetch(
    url: Annotated[str, typer.Argument(help="URL to fetch; https:// when it has no scheme.")],
    *,
    headers: Annotated[bool, typer.Option(help="Also print the response headers.")] = False,
    head_only: Annotated[bool, typer.Option(help="Ask with HEAD: no body.")] = False,
    body: Annotated[
        bool, typer.Option(help="Print the decoded body, nothing else; with --json, in it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fetch one URL: robots.txt, addresses, delay, each hop, and the outcome.

    Exit code 0: a result; 1: a failure or disregarded; 2: wrong settings or URL.
    """
    import asyncio
    import json

    from fetchers.check import check, show
    from schemas.errors import ConfigError
    from schemas.url import Rejected, parse
    from streams.settings import load

    settings = load()
    settings.identity()
    parsed = parse(url if "://" in url else f"https://{url}")
    if isinstance(parsed, Rejected):
        raise ConfigError(f"{url}: {parsed.reason.value} {parsed.detail}")
    report = asyncio.run(check(parsed, settings, method="HEAD" if head_only else "GET"))
    content = report.pop("body")
    if as_json:
        if body:
            report |= _answer(report["hops"][-1], content)
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    elif body:
        typer.get_binary_stream("stdout").write(content)
    else:
        show(report, headers=headers)
    raise typer.Exit(0 if report["outcome"] == "result" else 1)


def _answer(hop: dict[str, Any], body: bytes) -> dict[str, Any]:
    """The last hop in the form that `crawl parse` and `crawl shell` read."""
    failed = hop["outcome"] != "result"
    return {
        "url": hop["url"],
        "status": hop.get("status", 0),
        "headers": hop.get("headers", []),
        "location": hop.get("location", ""),
        "body_base64": base64.b64encode(body).decode(),
        "error": f"{hop['outcome']} {hop.get('detail', '')}".strip() if failed else "",
    }
