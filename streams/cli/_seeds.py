"""Seeds of a command: arguments and a file."""

from __future__ import annotations

import sys
from pathlib import Path

from streams.crawls.plan import Seed, read_seed, read_seeds


def gather_seeds(urls: list[str], file: str | None) -> tuple[list[Seed], list[str]]:
    """The seeds given as arguments and in a file (`-`: standard input), and all problems."""
    seeds: list[Seed] = []
    problems: list[str] = []
    for url in urls:
        seed = read_seed(url)
        if isinstance(seed, str):
            problems.append(f"seed {seed}")
        else:
            seeds.append(seed)
    if file is None:
        return seeds, problems
    origin = "standard input" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return seeds, [*problems, f"{origin}: {error}"]
    more, found = read_seeds(text.splitlines(), origin)
    return seeds + more, problems + found
