"""Pages and words of many languages, found in what is installed; nothing of them is copied here.

The virtual environment alone gives enough: pydoc writes pages about the standard library,
package descriptions become pages as any documentation tool makes them, and lists of common words
cover a hundred languages. Documentation of the machine joins where there is some.
"""

from __future__ import annotations

import importlib
import pydoc
import shutil
import subprocess
import sysconfig
from email import message_from_bytes
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from markdown_it import MarkdownIt

SITE: Final = Path(sysconfig.get_path("purelib"))
MAX_BYTES: Final = 80_000
_MODULES: Final = (
    "argparse", "ast", "base64", "bisect", "calendar", "cmd", "codecs", "colorsys", "contextlib",
    "copy", "csv", "dataclasses", "difflib", "dis", "email.utils", "enum", "fnmatch", "fractions",
    "functools", "glob", "gzip", "hashlib", "heapq", "html.parser", "http.cookies", "inspect",
    "io", "ipaddress", "json", "linecache", "locale", "mimetypes", "numbers", "operator",
    "pprint", "queue", "random", "re", "sched", "shelve", "shlex", "statistics", "string",
    "textwrap", "timeit", "tokenize", "traceback", "types", "urllib.parse", "uuid", "wave",
)  # fmt: skip


@cache
def pages() -> tuple[str, ...]:
    """About two hundred pages in any case, and a sample of the machine's documentation."""
    found = [*_of_pydoc(), *_of_packages(), *_of_machine(150)]
    assert len(found) >= 120, len(found)
    return tuple(found)


@cache
def words() -> dict[str, str]:
    """Language to its most frequent words, one line of text."""
    found = {}
    for path in sorted((SITE / "justext/stoplists").glob("*.txt")):
        lines = path.read_text(encoding="utf-8").split()
        found[path.stem] = " ".join(lines[:150])
    assert len(found) >= 80, len(found)
    return found


def _of_pydoc() -> list[str]:
    modules = [importlib.import_module(name) for name in _MODULES]
    made = [pydoc.html.page(one.__name__, pydoc.html.document(one)) for one in modules]
    return [page for page in made if len(page) <= MAX_BYTES]


def _of_packages() -> list[str]:
    markdown = MarkdownIt("commonmark", {"html": True})
    found = []
    for path in sorted(SITE.glob("*.dist-info/METADATA")):
        message = message_from_bytes(path.read_bytes())
        text = message.get_payload(decode=True)
        assert isinstance(text, bytes)
        body = markdown.render(text[:MAX_BYTES].decode("utf-8", "replace"))
        title = f"{message['Name']} \u2013 {message['Version']}"
        found.append(f"<!doctype html><html><head><title>{title}</title></head><body>{body}")
    return found


def _of_machine(at_most: int) -> list[str]:
    """Pages of documentation folders: any number, also none."""
    folders = [Path("/usr/share/doc")]
    rustc = shutil.which("rustc")
    if rustc is not None:
        command = [rustc, "--print", "sysroot"]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        folders.append(Path(found.stdout.strip()) / "share/doc/rust/html")
    texts = []
    for folder in folders:
        paths = sorted(islice((path for path in folder.rglob("*.html") if path.is_file()), 3_000))
        for path in Random(1).sample(paths, min(len(paths), at_most)):
            body = path.read_bytes()
            if len(body) <= MAX_BYTES // 2:
                texts.append(body.decode("utf-8", "replace"))
    return texts
