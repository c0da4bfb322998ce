"""One page in hand, for people: what `crawl parse` prints and `crawl shell` gives names to."""

from __future__ import annotations

import base64
import hashlib
import json
import mimetypes
import subprocess
import sys
import tempfile
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from parsers.documents import kind
from parsers.documents.html import Document, Node
from parsers.documents.page import collapse
from parsers.links.resolve import base_of
from parsers.records.parse import CrawlParser, Failure, Parsed
from parsers.text import charset
from schemas.admission import compile_rules
from schemas.errors import ConfigError, TransientInfraError
from schemas.url import Rejected, parse, url_id

if TYPE_CHECKING:
    from schemas.crawl import CrawlSpec
    from schemas.records import FetchResult

NO_URL: Final = "http://localhost/"
"""URL of a page that came from a file and was given none."""
_FETCH: Final = "import sys; from streams.cli import main; sys.exit(main())"
_JSON_FIELDS: Final = (
    *("json_ld", "microdata", "rdfa", "opengraph", "microformats"),
    "extracted",
)


class Element:
    """An element of a page."""

    def __init__(self, document: Document, node: Node) -> None:
        self._document = document
        self._node = node

    @property
    def text(self) -> str:
        """Text, white space collapsed."""
        return collapse(self._document.text(self._node))

    @property
    def html(self) -> str:
        """Markup."""
        return self._document.html(self._node)

    @property
    def tag(self) -> str:
        """Name."""
        return self._document.tag(self._node)

    @property
    def attrs(self) -> dict[str, str]:
        """Attributes."""
        return self._document.attributes(self._node)

    def css(self, selector: str) -> list[Element]:
        """Elements inside that match a selector."""
        return [Element(self._document, one) for one in self._document.select(selector, self._node)]

    def __repr__(self) -> str:
        text = self.text
        return f"<{self.tag} {text[:60] + '...' if len(text) > 60 else text!r}>"


class Page:
    """A fetched or read page under a crawl's spec."""

    def __init__(self, result: FetchResult, body: bytes, spec: CrawlSpec, agent: str = "") -> None:
        self.result = result
        self.body = body
        self.url = result["url"]
        self.outcome = CrawlParser(compile_rules(spec), agent=agent).parse(
            result, body, time.time_ns() // 1_000_000
        )
        self._document: Document | None = None

    @property
    def status(self) -> int:
        """HTTP status."""
        return self.result["status"]

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Response headers."""
        return [(header["name"], header["value"]) for header in self.result["headers"]]

    @property
    def text(self) -> str:
        """Decoded markup."""
        content_type = next((value for name, value in self.headers if name == "content-type"), "")
        head, media_type = self.body[: kind.HEAD_BYTES], self.result["content_type"]
        found = kind.classify(head, media_type, via=self.result["via"])
        document = kind.format_of(found, media_type, head)
        return charset.decode(self.body, charset.sniff(self.body, content_type, document))

    @property
    def document(self) -> Document:
        """The parsed markup."""
        if self._document is None:
            self._document = Document(self.text)
        return self._document

    @property
    def record(self) -> dict[str, Any]:
        """The record as published, JSON fields opened; or the reason why there is none."""
        if isinstance(self.outcome, Failure):
            return {"reason": self.outcome.reason.value, "detail": self.outcome.detail}
        return readable(self.outcome)

    @property
    def links(self) -> list[str]:
        """URLs that would go to `urls`."""
        return [link["url"] for link in self.sent]

    @property
    def sent(self) -> list[dict[str, Any]]:
        """Links that would go to `urls`, with how they were found."""
        if isinstance(self.outcome, Failure):
            return []
        return [
            {"url": link["url"], "via": batch["via"], "depth": batch["depth"]}
            for batch in self.outcome.batches
            for link in batch["links"]
        ]

    @property
    def counts(self) -> dict[str, int]:
        """What was counted, refusals by reason among it."""
        return {} if isinstance(self.outcome, Failure) else self.outcome.counts

    def css(self, selector: str) -> list[Element]:
        """Elements that match a selector. Raises ValueError on bad syntax."""
        return [Element(self.document, node) for node in self.document.select(selector)]

    def view(self) -> Path:
        """Open the page in a web browser; gives the file it is in."""
        base = base_of(self.url, None).replace('"', "%22")
        with tempfile.NamedTemporaryFile(
            "w", suffix=".html", encoding="utf-8", delete=False
        ) as file:
            file.write(f'<meta charset="utf-8"><base href="{base}">{self.text}')
        webbrowser.open(Path(file.name).as_uri())
        return Path(file.name)

    def __repr__(self) -> str:
        return f"<Page {self.status} {self.url}>"


def readable(parsed: Parsed) -> dict[str, Any]:
    """A record as JSON can hold it: bytes in hexadecimal, JSON texts opened."""
    record: dict[str, Any] = dict(parsed.record)
    for name, value in record.items():
        if isinstance(value, bytes):
            record[name] = value.hex()
        elif name in _JSON_FIELDS:
            record[name] = json.loads(value)
    return record


def load(target: str, spec: CrawlSpec, *, url: str = "", agent: str = "") -> Page:
    """The page at a URL, in a file, or on standard input (`-`).

    Raises ConfigError when it cannot be read, TransientInfraError when it cannot be fetched.

    Args:
        target: what to load.
        spec: rules of the crawl that it is looked at under.
        url: of a page that comes from a file.
        agent: our product token.
    """
    if target.lower().startswith(("http://", "https://")):
        result, body = fetch(target, spec)
    else:
        result, body = read(target, spec, url or NO_URL)
    return Page(result, body, spec, agent)


def read(target: str, spec: CrawlSpec, url: str) -> tuple[FetchResult, bytes]:
    """A file as if it had been fetched."""
    try:
        body = sys.stdin.buffer.read() if target == "-" else Path(target).read_bytes()
    except OSError as error:
        raise ConfigError(f"{target}: {error.strerror or error}") from error
    media_type = mimetypes.guess_type(target)[0] or ""
    headers = [("content-type", media_type)] if media_type else []
    return _result(url, 200, headers, body, spec), body


def fetch(url: str, spec: CrawlSpec) -> tuple[FetchResult, bytes]:
    """A page, by `crawl fetch` in a process of its own: parsers never open a connection."""
    command = [sys.executable, "-c", _FETCH, "fetch", "--json", "--body", url]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)  # noqa: S603 - our own
    try:
        said = json.loads(done.stdout)
    except ValueError:
        raise TransientInfraError(f"{url}: not fetched (exit {done.returncode})") from None
    if said.get("error"):
        raise TransientInfraError(f"{url}: {said['error']}")
    body = base64.b64decode(said.get("body_base64") or "")
    headers = [(str(name).lower(), str(value)) for name, value in said.get("headers") or []]
    result = _result(said.get("url") or url, said["status"], headers, body, spec)
    result["location"] = said.get("location") or ""
    return result, body


def _result(
    url: str, status: int, headers: list[tuple[str, str]], body: bytes, spec: CrawlSpec
) -> FetchResult:
    parsed = parse(url)
    if isinstance(parsed, Rejected):
        raise ConfigError(f"{url}: {parsed.reason.value}")
    now_ms = time.time_ns() // 1_000_000
    media_type = next((value for name, value in headers if name == "content-type"), "")
    return {
        "crawl": spec.crawl,
        "url_id": url_id(spec.crawl, parsed.href),
        "url": parsed.href,
        "host": parsed.host,
        "depth": 0,
        "scope_host": parsed.host,
        "via": "seed",
        "referrer": "",
        "redirects": [],
        "seeded_at": now_ms,
        "discovered_at": now_ms,
        "fetch_id": b"\0" * 16,
        "attempt": 1,
        "status": status,
        "headers": [{"name": name, "value": value} for name, value in headers],
        "content_type": media_type.partition(";")[0].strip().lower(),
        "location": "",
        "redirect_followed": False,
        "fetched_at": now_ms,
        "duration_ms": 0,
        "address": "",
        "http_version": "",
        "wire_bytes": len(body),
        "body_bytes": len(body),
        "body_sha256": hashlib.sha256(body).digest(),
        "body_coding": "identity",
        "body": b"",
        "body_ref": "",
        "truncated": False,
        "not_modified": status == 304,
        "sitemaps": [],
    }
