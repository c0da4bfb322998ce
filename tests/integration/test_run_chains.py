"""`crawl run` of pages behind redirect chains that come back, over a real broker and web server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


class Pages(BaseHTTPRequestHandler):
    """A shop that wants a cookie first, a sign-on at 127.0.0.2, a loop at 127.0.0.3."""

    asked: Counter[str]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        here = f"http://127.0.0.1:{self.server.server_address[1]}"
        there = here.replace("127.0.0.1", "127.0.0.2")
        cookies = set((self.headers["cookie"] or "").split("; "))
        self.asked[self.path] += 1
        match self.path:
            case "/shop" if "s=1" not in cookies:
                self._send(302, ("Location", "/shop?c=1"))
            case "/shop?c=1":
                self._send(302, ("Set-Cookie", "s=1"), ("Location", "/shop"))
            case "/members" if "session=9" not in cookies:
                self._send(302, ("Location", f"{there}/login"))
            case "/login":
                self._send(302, ("Set-Cookie", "idp=1"), ("Location", f"{here}/ticket?t=77"))
            case "/ticket?t=77":
                self._send(302, ("Set-Cookie", "session=9"), ("Location", "/members"))
            case "/round":
                self._send(302, ("Location", "/about"))
            case "/about":
                self._send(302, ("Location", "/round"))
            case "/" | "/shop" | "/members":
                body = f"<title>{self.path}</title><p>page".encode()
                if self.path == "/":
                    alone = here.replace("127.0.0.1", "127.0.0.3")
                    links = f"<a href=/shop>1</a><a href=/members>2</a><a href={alone}/round>3</a>"
                    body += links.encode()
                self._send(200, ("Content-Type", "text/html"), body=body)
            case _:
                self._send(404)

    def _send(self, status: int, *headers: tuple[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    Pages.asked = Counter()
    with ThreadingHTTPServer(("0.0.0.0", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def run(kafka: str, folder: Path, site: str, *, cookies: bool) -> dict[str, Any]:
    spec = folder / "spec.yaml"
    spec.write_text(f"cookies: {str(cookies).lower()}\ndelay_s: 0\nscope: any\n")
    env = {key: value for key, value in os.environ.items() if not key.startswith("CRAWL_")} | {
        "CRAWL_AGENT": "testbot",
        "CRAWL_CONTACT": "https://bot.example/",
        "CRAWL_ALLOW_NETWORKS": "127.0.0.0/8",
        "CRAWL_DATA_DIR": str(folder / "data"),
        "CRAWL_PARTITIONS": "2",
        "CRAWL_TOPIC_PREFIX": f"chains-{cookies}.",
        "KAFKA_BOOTSTRAP_SERVERS": kafka,
    }
    output = folder / "x.jsonl"
    command = "from streams.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "run", f"{site}/", "--spec", str(spec), "--crawl", "x",
         "--output", str(output)],
        env=env, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary: dict[str, Any] = json.loads((folder / "data" / "runs" / "x.json").read_text("utf-8"))
    rows = [json.loads(row) for row in output.read_text("utf-8").splitlines()]
    summary["pages"] = sorted(row["title"] for row in rows if row["status"] == 200)
    summary["rows"] = len(rows)
    return summary


def test_with_cookies_every_page_is_reached_and_the_loop_told(
    kafka: str, tmp_path: Path, site: str
) -> None:
    summary = run(kafka, tmp_path, site, cookies=True)
    assert summary["pages"] == ["/", "/members", "/shop"]
    assert summary["counts"]["failed"] == {"too_many_redirects": 1}
    assert summary["counts"]["duplicates"] == 0
    assert summary["rows"] == summary["counts"]["records"] == 1 + 3 + 4 + 2
    asked = {path: count for path, count in Pages.asked.items() if path != "/robots.txt"}
    assert asked == {
        "/": 1, "/shop": 2, "/shop?c=1": 1, "/members": 2, "/login": 1, "/ticket?t=77": 1,
        "/round": 1, "/about": 1,
    }  # fmt: skip


def test_without_cookies_each_chain_is_told_as_a_loop(
    kafka: str, tmp_path: Path, site: str
) -> None:
    summary = run(kafka, tmp_path, site, cookies=False)
    assert summary["pages"] == ["/"]
    assert summary["counts"]["failed"] == {"too_many_redirects": 3}
    assert summary["counts"]["duplicates"] == 0
