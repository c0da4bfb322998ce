"""Links against those that an independent parser (libxml2) finds, on thousands of real pages.

The corpora are those at hand: the Rust documentation, Debian's python3-doc, and in any case one
made here, so that the test never passes for lack of pages.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import lxml.html
import pytest

from parsers.links.resolve import refresh_target
from parsers.records.parse import Parsed
from schemas.url import CrawlUrl, parse
from tests.unit.parsers.parsing import NOW_MS, crawl_parser, fetch_result, links

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = 3_000
ORIGIN = "http://docs.example"
_RELS = {"next", "prev", "alternate", "canonical"}


def _rust() -> Path | None:
    rustc = shutil.which("rustc")
    if rustc is None:
        return None
    found = subprocess.run(
        [rustc, "--print", "sysroot"], capture_output=True, text=True, check=True
    )
    folder = Path(found.stdout.strip()) / "share/doc/rust/html"
    return folder if folder.is_dir() else None


def _python() -> Path | None:
    for folder in sorted(Path("/usr/share/doc").glob("python3*/html")):
        if (folder / "index.html").exists():
            return folder
    return None


def _made(folder: Path) -> Path:
    """Pages of all link elements, bases, odd nesting and odd quoting, made from a fixed seed."""
    chance = random.Random(7)
    for at in range(200):
        parts = [f"<!doctype html><html><head><title>{at}</title>"]
        if at % 5 == 0:
            parts.append(f'<base href="{chance.choice(["/b/", "../", "x/y", "?q"])}">')
        if at % 3 == 0:
            parts.append(f'<link rel="canonical" href="/c{at}"><link rel=stylesheet href=s.css>')
        if at % 7 == 0:
            parts.append(f'<meta http-equiv="refresh" content="9; url=/r{at}">')
        parts.append("</head><body>")
        for link in range(chance.randrange(1, 60)):
            href = chance.choice(
                [
                    f"p{link}.html", f"../q/{link}", f"/z?a={link}&amp;b=2", f"#{link}", "",
                    f"//h{link % 3}.example/{link}", f"http://x.example/{link}", "mailto:a@b",
                    f" sp{link} ", f"é{link}", f"a%20b{link}", f"?only={link}", "./././k/../m",
                ]
            )  # fmt: skip
            quote = chance.choice(["'", '"'])
            parts.append(
                chance.choice(
                    [
                        f"<p>text <a href={quote}{href}{quote}>link {link}</a>",
                        f"<div><b><a class=x href={quote}{href}{quote}>b</b></a></div>",
                        f"<table><tr><td><A HREF={quote}{href}{quote}>t</A></table>",
                        f"<iframe src={quote}{href}{quote}></iframe>",
                        f"<map><area href={quote}{href}{quote} alt=x></map>",
                        f"<!-- <a href=no{link}> -->",
                        f"<script>'<a href=no{link}>'</script>",
                    ]
                )
            )
        (folder / f"{at}.html").write_text("".join(parts), encoding="utf-8")
    return folder


def _corpora(made: Path) -> Iterator[tuple[str, Path]]:
    yield "made", _made(made)
    rust, python = _rust(), _python()
    if rust is not None:
        yield "rust", rust
    if python is not None:
        yield "python", python


def _by_libxml2(body: bytes, url: str) -> set[str]:
    """Links by lxml: what is a link follows the same list of elements."""
    try:
        tree = lxml.html.document_fromstring(body, parser=lxml.html.HTMLParser(encoding="utf-8"))
    except lxml.etree.ParserError:
        return set()
    base = url
    for element in tree.iter("base"):
        if element.get("href") is not None:
            joined = parse(element.get("href"), url)
            base = joined.href if isinstance(joined, CrawlUrl) else url
            break
    hrefs = [one.get("href") for one in tree.iter("a", "area") if one.get("href") is not None]
    hrefs += [one.get("src") for one in tree.iter("iframe", "frame") if one.get("src")]
    hrefs += [
        one.get("href")
        for one in tree.iter("link")
        if one.get("href") and _RELS & set(one.get("rel", "").lower().split())
    ]
    hrefs += [
        target
        for one in tree.iter("meta")
        if one.get("http-equiv", "").lower() == "refresh"
        and (target := refresh_target(one.get("content", "")))
    ]
    found = (parse(href, base) for href in hrefs)
    return {one.href for one in found if isinstance(one, CrawlUrl)}


@pytest.mark.timeout(600)
def test_link_sets_equal_those_of_libxml2(tmp_path: Path) -> None:
    seen = 0
    for name, folder in _corpora(tmp_path):
        files = sorted(folder.rglob("*.html"))
        files = random.Random(1).sample(files, min(PAGES, len(files)))
        parser = crawl_parser(max_links=1_000_000, scope="any")
        wrong: list[str] = []
        for file in files:
            body = file.read_bytes()
            if len(body) > 2_000_000:
                continue
            url = f"{ORIGIN}/{file.relative_to(folder).as_posix()}"
            outcome = parser.parse(fetch_result(body, url=url), body, NOW_MS)
            assert isinstance(outcome, Parsed), (file, outcome)
            theirs = _by_libxml2(body, url)
            ours = set(links(outcome))
            seen += len(ours)
            if ours != theirs:
                wrong.append(f"{name} {file}: {sorted(ours ^ theirs)[:5]}")
        assert not wrong, (len(wrong), wrong[:20])
    assert seen > 1_000
