"""CPU time of parsing a page, next to parsel (lxml) doing the same, in one run.

    python tests/bench/bench_parse.py [FOLDER] [--pages N] [--rounds N] [--peer-python PATH]

The folder holds HTML pages of one site (default: the Rust documentation of the installed
toolchain). `--peer-python` names an interpreter that has parsel; without it only our side runs.
Rounds of both sides alternate, so that both see the same machine; the best round of each counts.

Each side turns the bytes of each page into a record (title, description, headings, text, metadata,
outlinks with anchors and rel, encoded) and into the messages for links not seen before. Ours does
charset detection, robots directives, JSON-LD and admission on top; `simhash` is ours with the
simhash as well, as crawls have it that do not turn it off.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ORIGIN = "http://docs.example"
MAX_PAGE_BYTES = 200_000
"""A few pages of some megabytes (all of a book, all items of a platform) would be all one sees."""


def pages_of(folder: Path, number: int) -> list[Path]:
    """Half neighbours, half every n-th page, in the order of their paths."""
    files = sorted(file for file in folder.rglob("*.html") if file.stat().st_size <= MAX_PAGE_BYTES)
    start = random.Random(3).randrange(max(1, len(files) - number))
    near = files[start : start + number // 2]
    spread = files[:: max(1, len(files) // (number - len(near)))]
    return sorted({*near, *spread})[:number]


def measure(folder: Path, files: list[Path], side: str, repeat: int) -> dict[str, Any]:
    """CPU time of each page: in a first pass, and the least of some more.

    The first pass is a crawl's: new links, new words. The least of several is what remains when
    neighbours on the machine do not empty the processor's caches.
    """
    work = parsel_like() if side == "parsel" else ours(simhash=side == "simhash")
    took, links, sent, size = [], 0, 0, 0
    for file in files:
        body = file.read_bytes()
        url = f"{ORIGIN}/{file.relative_to(folder).as_posix()}"
        found = work(url, body)
        took.append(found[0])
        links += found[1]
        sent += found[2]
        size += len(body)
    least = list(took)
    for _ in range(repeat):
        for at, file in enumerate(files):
            url = f"{ORIGIN}/{file.relative_to(folder).as_posix()}"
            least[at] = min(least[at], work(url, file.read_bytes())[0])
    count = len(files)
    return {
        "side": side,
        "pages": count,
        "mean_ms": 1000 * sum(took) / count,
        "least_ms": 1000 * sum(least) / count,
        "median_ms": 1000 * statistics.median(took),
        "p95_ms": 1000 * sorted(took)[int(count * 0.95)],
        "kb": size / count / 1000,
        "links": links / count,
        "sent": sent / count,
    }


def ours(*, simhash: bool) -> Any:
    """Our side: what a parse process does with a message, up to the encoded outputs."""
    import hashlib

    import zstandard

    from parsers.links.lru import RecentIds
    from parsers.records.parse import CrawlParser, Parsed
    from parsers.worker.child import KNOWN_LINKS
    from parsers.worker.encode import encode_batches, encode_record
    from schemas.admission import compile_rules
    from schemas.codec import decode, encode
    from schemas.crawl import CrawlSpec
    from streams.process.collector import relax
    from tests.unit.parsers.parsing import fetch_result

    relax()
    known = RecentIds(KNOWN_LINKS)
    spec = CrawlSpec(crawl="c", simhash=simhash)
    parser = CrawlParser(compile_rules(spec), agent="acmebot", known=known)
    squeeze, inflate = zstandard.ZstdCompressor(), zstandard.ZstdDecompressor()
    extra = [("server", "nginx"), ("date", "Wed, 21 Oct 2015 07:28:00 GMT"), ("etag", '"x"')]

    def run(url: str, body: bytes) -> tuple[float, int, int]:
        result = fetch_result(body, url=url, headers=extra)
        result["body"], result["body_coding"] = squeeze.compress(body), "zstd"
        result["body_sha256"] = hashlib.sha256(body).digest()
        message = encode("fetch-result", result)
        begun = time.process_time()
        read = decode("fetch-result", message)
        plain = inflate.decompress(read["body"], max_output_size=read["body_bytes"])
        outcome = parser.parse(read, plain, time.time_ns() // 1_000_000)
        assert isinstance(outcome, Parsed), outcome
        encode_record(outcome.record)
        encode_batches(outcome.batches)
        for identity in outcome.sent:
            known.add(identity)
        took = time.process_time() - begun
        return took, len(outcome.record["outlinks"]), outcome.counts.get("links_sent", 0)

    return run


def parsel_like() -> Any:
    """The other side, in the way of a Scrapy project: parsel, urljoin, canonical form, SHA-1."""
    import hashlib
    from urllib.parse import urljoin

    selector = importlib.import_module("parsel").Selector
    html_to_unicode = importlib.import_module("w3lib.encoding").html_to_unicode
    canonicalize_url = importlib.import_module("w3lib.url").canonicalize_url

    seen: set[bytes] = set()

    def run(url: str, body: bytes) -> tuple[float, int, int]:
        begun = time.process_time()
        _, text = html_to_unicode("text/html", body)
        page = selector(text=text, base_url=url)
        base = urljoin(url, page.xpath("//base/@href").get(default=""))
        outlinks, new, here = [], [], set()
        for element in page.xpath("//a[@href] | //area[@href]"):
            target = urljoin(base, element.attrib["href"].strip()).partition("#")[0]
            if not target.startswith("http") or target in here:
                continue
            here.add(target)
            anchor = " ".join("".join(element.xpath(".//text()").getall()).split())
            outlinks.append({"url": target, "anchor": anchor, "rel": element.attrib.get("rel", "")})
            identity = hashlib.sha1(canonicalize_url(target).encode()).digest()
            if identity not in seen:
                seen.add(identity)
                new.append({"url": target, "depth": 1, "referrer": url})
        record = {
            "url": url,
            "title": page.xpath("normalize-space(//title)").get(),
            "description": page.xpath("//meta[@name='description']/@content").get(),
            "headings": [
                " ".join("".join(one.xpath(".//text()").getall()).split())
                for one in page.xpath("//h1|//h2|//h3|//h4|//h5|//h6")
            ],
            "text": "\n".join(
                line
                for piece in page.xpath(
                    "//body//text()[not(ancestor::script or ancestor::style)]"
                ).getall()
                if (line := piece.strip())
            ),
            "meta": {
                one.attrib.get("name") or one.attrib.get("property"): one.attrib["content"]
                for one in page.xpath("//meta[@content]")
            },
            "canonical": page.xpath("//link[@rel='canonical']/@href").get(),
            "outlinks": outlinks,
        }
        json.dumps({str(key): value for key, value in record.items()}).encode()
        for link in new:
            json.dumps(link).encode()
        return time.process_time() - begun, len(outlinks), len(new)

    return run


def default_folder() -> Path:
    """The Rust documentation."""
    found = subprocess.run(
        ["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True
    )
    return Path(found.stdout.strip()) / "share/doc/rust/html"


def main() -> None:
    """Run the rounds and print the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", nargs="?", type=Path)
    options.add_argument("--pages", type=int, default=3_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--repeat", type=int, default=5, help="passes for the undisturbed figure")
    options.add_argument("--peer-python")
    sides = ("ours", "simhash", "parsel")
    options.add_argument("--side", choices=sides, help=argparse.SUPPRESS)
    given = options.parse_args()
    folder = given.folder or default_folder()
    files = pages_of(folder, given.pages)
    if given.side:
        print(json.dumps(measure(folder, files, given.side, given.repeat)))
        return
    pythons = {"ours": sys.executable, "simhash": sys.executable}
    if given.peer_python:
        pythons["parsel"] = given.peer_python
    from parsers.worker.pool import ENVIRONMENT

    results: dict[str, list[dict[str, Any]]] = {}
    for _ in range(given.rounds):
        for side, python in pythons.items():
            command = [python, __file__, str(folder), "--pages", str(given.pages)]
            command += ["--side", side, "--repeat", str(given.repeat)]
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
            if side != "parsel":
                environment |= ENVIRONMENT
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, env=environment
            )
            results.setdefault(side, []).append(json.loads(done.stdout))
    for side, rounds in results.items():
        best = min(rounds, key=lambda one: one["mean_ms"])
        print(
            f"{side:7} {best['pages']} pages of {best['kb']:.1f} kB, {best['links']:.1f} links,"
            f" {best['sent']:.1f} new: CPU {best['mean_ms']:.3f} ms a page"
            f" (median {best['median_ms']:.3f}, p95 {best['p95_ms']:.3f});"
            f" undisturbed {min(one['least_ms'] for one in rounds):.3f} ms"
        )
    if "parsel" in results:
        for name, key in (("first pass", "mean_ms"), ("undisturbed", "least_ms")):
            figure = {side: min(one[key] for one in rounds) for side, rounds in results.items()}
            print(f"parsel / ours, {name}: {figure['parsel'] / figure['ours']:.1f}")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
