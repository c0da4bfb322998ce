"""Reading robots.txt: bounds, memory, and pieces of any size."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetchers.policy import robots_file
from fetchers.policy.robots import Robots, is_allowed
from fetchers.policy.robots_file import (
    MAX_BYTES,
    MAX_LINE_BYTES,
    MAX_RULES_WEIGHT,
    MAX_SITEMAPS,
    MIN_BYTES,
    Bound,
    RobotsReader,
)
from schemas.url import MAX_URL_CHARS
from tests.unit.fetchers.robots_files import AGENT, ORIGIN, make_file, parse, read

ALL = b"User-agent: *\n"


# Bounds.


def exceeded(data: bytes) -> frozenset[Bound]:
    reader = RobotsReader(AGENT, ORIGIN)
    reader.feed(data)
    reader.finish()
    return reader.exceeded


def padded(head: bytes, size: int) -> bytes:
    """A file that is so long up to the end of a last comment line."""
    filler = b"#" * 99 + b"\n"
    count, rest = divmod(size - len(head), len(filler))
    return head + filler * count + b"#" * (rest - 1) + b"\n" * (rest > 0)


def test_rules_far_behind_the_least_that_must_be_read_are_obeyed() -> None:
    early = padded(ALL + b"Disallow: /a\n", 900_000)
    assert len(early) > MIN_BYTES
    rules = parse(early + b"Disallow: /late\n")
    assert not is_allowed(rules, "/a")
    assert not is_allowed(rules, "/late")


def test_only_whole_lines_within_the_limit_count() -> None:
    late = b"Disallow: /late\n"
    head = ALL + b"Disallow: /a\n"
    fits = padded(head, MAX_BYTES - len(late)) + late
    assert len(fits) == MAX_BYTES
    assert not is_allowed(parse(fits), "/late")
    assert exceeded(fits) == frozenset()
    over = padded(head, MAX_BYTES - len(late) + 1) + late
    assert is_allowed(parse(over), "/late")
    assert not is_allowed(parse(over), "/a")
    assert exceeded(over) == {"file"}
    # "Disallow: /" alone would close the site: the cut line must not be used.
    trap = padded(head, MAX_BYTES - len(b"Disallow: /")) + late
    assert is_allowed(parse(trap), "/x")


def test_what_is_there_of_a_last_line_is_no_rule_when_the_file_goes_on() -> None:
    for cut, expected in ((True, True), (False, False)):
        reader = RobotsReader(AGENT, ORIGIN)
        reader.feed(ALL + b"Disallow: /")
        assert is_allowed(reader.finish(cut=cut), "/p") is expected
        assert reader.exceeded == ({"file"} if cut else set())


def test_a_line_may_be_so_long_and_its_comment_longer() -> None:
    rule = b"Disallow: /p"
    spaces = b" " * (MAX_LINE_BYTES - len(rule))
    for line, obeyed in (
        (rule + spaces, True),
        (rule + spaces + b" ", False),
        (rule + b"#" * 2 * MAX_LINE_BYTES, True),
        (b"Disallow: /" + b"p" * 2 * MAX_LINE_BYTES, False),
        (b"Disallow: /*" + b"p" * 2 * MAX_LINE_BYTES, False),
    ):
        data = ALL + line + b"\nDisallow: /q\n"
        rules = parse(data)
        assert not is_allowed(rules, "/q")
        assert is_allowed(rules, "/p") is not obeyed
        assert exceeded(data) == (set() if obeyed else {"line"})


def test_a_line_that_is_too_long_keeps_its_place_in_the_order() -> None:
    long = b"x" * 2 * MAX_LINE_BYTES
    # An agent is a group of somebody else; a rule ends the row of agents.
    assert is_allowed(parse(ALL + b"Allow: /a\nUser-agent: " + long + b"\nDisallow: /\n"), "/p")
    ended = b"User-agent: acmebot\nDisallow: /" + long + b"\nUser-agent: x\nDisallow: /\n"
    assert is_allowed(parse(ended), "/p")
    # One that is too long for others does not concern us.
    assert exceeded(b"User-agent: x\nDisallow: /" + long + b"\n" + ALL) == frozenset()
    assert exceeded(ALL + b"Disallow: /" + long + b"\nUser-agent: acmebot\n") == frozenset()


def test_a_mark_does_not_make_a_long_line_short() -> None:
    sitemap = b"Sitemap: /s"
    line = sitemap + b" " * (MAX_LINE_BYTES - len(sitemap))
    assert parse(b"\xef\xbb\xbf" + line + b"\n").sitemaps == ("/s",)
    assert parse(b"\xef\xbb\xbf" + line + b" \n").sitemaps == ()


def test_sitemaps_are_bounded_and_none_is_cut() -> None:
    lines = [b"Sitemap: /s%d.xml\n" % number for number in range(MAX_SITEMAPS)]
    assert len(parse(b"".join(lines)).sitemaps) == MAX_SITEMAPS
    assert exceeded(b"".join(lines)) == frozenset()
    assert exceeded(b"".join(lines) + b"Sitemap:\n") == frozenset()
    assert len(parse(b"".join(lines) + b"Sitemap: /more\n").sitemaps) == MAX_SITEMAPS
    assert exceeded(b"".join(lines) + b"Sitemap: /more\n") == {"sitemaps"}
    longest = b"/" * MAX_URL_CHARS
    assert parse(b"Sitemap: " + longest).sitemaps == (longest.decode(),)
    assert parse(b"Sitemap: " + longest + b"x").sitemaps == ()
    assert exceeded(b"Sitemap: " + longest + b"x") == {"line"}


def shortest_rules() -> Iterator[bytes]:
    for number in range(MIN_BYTES):
        yield b"allow:" + b"".join(b"%c" % (0x80 | (number >> shift & 63)) for shift in (0, 6, 12))


def short_wildcards() -> Iterator[bytes]:
    for number in range(MIN_BYTES):
        yield b"allow:*%c*%c*%c" % tuple(0x80 | (number >> shift & 63) for shift in (0, 6, 12))


def long_wildcards() -> Iterator[bytes]:
    for number in range(MIN_BYTES):
        yield b"allow:%d" % number + b"*\xe9" * ((MAX_LINE_BYTES - 16) // 2)


def long_rules() -> Iterator[bytes]:
    for number in range(MIN_BYTES):
        yield b"allow:%d" % number + b"\xe9" * (MAX_LINE_BYTES - 16)


@pytest.mark.parametrize("kind", [shortest_rules, short_wildcards, long_wildcards, long_rules])
def test_the_least_that_must_be_read_fits_whatever_its_rules_are(
    kind: Callable[[], Iterator[bytes]],
) -> None:
    data = bytearray(ALL)
    for line in kind():
        data += line + b"\n"
        if len(data) > MIN_BYTES:
            break
    rules = parse(bytes(data))
    assert exceeded(bytes(data)) == frozenset()
    assert rules.weight > MAX_RULES_WEIGHT // 12


def test_a_group_without_room_takes_no_more_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_file, "MAX_RULES_WEIGHT", 1_000)
    rules = b"".join(b"Disallow: /rule%d/\n" % number for number in range(20))
    data = ALL + b"Crawl-delay: 2\n" + rules + b"Disallow: /a\n"
    read = parse(data)
    assert exceeded(data) == {"rules"}
    assert not is_allowed(read, "/rule1/")
    assert is_allowed(read, "/rule19/")
    assert is_allowed(read, "/a")
    assert read.crawl_delay_s == 2.0
    # A group of ours has room of its own, wherever it is, and then those rules do not matter.
    own = data + b"User-agent: acmebot\nDisallow: /own\n"
    assert exceeded(own) == frozenset()
    assert not is_allowed(parse(own), "/own")
    assert exceeded(b"User-agent: acmebot\nDisallow: /own\n" + data) == frozenset()


# Memory.


def peak_bytes(pieces: Iterator[bytes]) -> tuple[int, Robots]:
    tracemalloc.start()
    try:
        rules = read(pieces)
        return tracemalloc.get_traced_memory()[1], rules
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_what_is_not_for_us() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"User-agent: acmebot\nDisallow: /p\nUser-agent: *\n"
        size = number = 0
        while size < MAX_BYTES - 70_000:
            lines = [b"Disallow: /others/%d/\n" % (number + step) for step in range(2_000)]
            lines.append(b"# " + b"x" * 5_000 + b"\n" + b"y" * 20_000 + b"\n")
            number += 2_000
            piece = b"".join(lines)
            size += len(piece)
            yield piece

    peak, rules = peak_bytes(pieces())
    assert not is_allowed(rules, "/p")
    assert is_allowed(rules, "/others/1/")
    assert peak < MAX_BYTES // 8


def test_rules_that_others_share_with_us_are_kept_once() -> None:
    reader = RobotsReader(AGENT, ORIGIN)
    reader.feed(ALL + b"User-agent: acmebot\nDisallow: /p\n")
    assert [group.rules for group in reader._groups._current] == [{"/p": False}]


def test_a_line_without_an_end_does_not_grow() -> None:
    peak, _ = peak_bytes(b"x" * 1_000 for _ in range(MAX_BYTES // 1_000))
    assert peak < 8 * MAX_LINE_BYTES


@pytest.mark.parametrize("rule", [b"Disallow: /%d\n", b"Disallow: /*a%d*b/*cc\n"])
def test_the_rules_take_what_their_weight_says(rule: bytes) -> None:
    def pieces() -> Iterator[bytes]:
        yield ALL
        for start in range(0, 20_000, 500):
            yield b"".join(rule % number for number in range(start, start + 500))

    tracemalloc.start()
    try:
        rules = read(pieces())
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rules.weight / 1.6 < held < rules.weight * 1.6


# Any bytes, in any pieces.

TEXT = st.lists(
    st.sampled_from(
        [
            b"User-agent: *", b"user-agent:acmebot", b"Disallow: /", b"Allow: /p", b"disallow /p?",
            b"Sitemap: /s", b"Crawl-delay: 2", b"\r", b"\n", b"\r\n", b"\xef\xbb\xbf", b"#", b":",
            b"Disallow: https://a.example/p", b"*", b"$", b"%", b"//", b" ", b"\x00",
        ]
    )
    | st.binary(max_size=20),
    max_size=40,
).map(b"".join)  # fmt: skip


@settings(deadline=None)
@given(TEXT, st.text(max_size=20))
def test_any_bytes_are_read_and_any_path_is_judged(data: bytes, path: str) -> None:
    is_allowed(parse(data), f"/{path}")


@settings(deadline=None)
@given(TEXT, st.lists(st.integers(1, 30), min_size=1, max_size=10))
def test_pieces_make_no_difference(data: bytes, sizes: list[int]) -> None:
    pieces = []
    rest = data
    while rest:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(rest[:size])
        rest = rest[size:]
    assert read(pieces) == parse(data)


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_pieces_make_no_difference_at_the_bounds(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robots_file, "MAX_BYTES", 1_500)
    monkeypatch.setattr(robots_file, "MAX_LINE_BYTES", 40)
    monkeypatch.setattr(robots_file, "_LINE_KEPT", 44)
    monkeypatch.setattr(robots_file, "MAX_RULES_WEIGHT", 900)
    seen: set[Bound] = set()
    for seed in range(200):
        data = make_file(Random(seed))
        data = data * (1_600 // len(data) + 1) if seed % 2 else data
        whole, parts = RobotsReader(AGENT, ORIGIN), RobotsReader(AGENT, ORIGIN)
        whole.feed(data)
        for at in range(0, len(data), size):
            parts.feed(data[at : at + size])
        assert whole.finish() == parts.finish()
        assert whole.exceeded == parts.exceeded
        seen |= whole.exceeded
    assert seen >= {"file", "line", "rules"}


def test_work_is_linear_in_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte is looked at in one line only, whatever the pieces are; no line is longer than
    its bound."""
    looked = 0
    longest = 0
    take = robots_file._Groups.take

    def counted(groups: robots_file._Groups, line: bytes) -> None:
        nonlocal looked, longest
        looked += len(line)
        longest = max(longest, len(line))
        take(groups, line)

    monkeypatch.setattr(robots_file._Groups, "take", counted)
    data = ALL + b"Disallow: /a\n" * 2_000 + b"y" * 100_000 + b"\r\n" * 5_000 + b"x" * 100_000
    for size in (1, 100, 65_536):
        looked = longest = 0
        read(data[at : at + size] for at in range(0, len(data), size))
        assert looked <= len(data)
        assert longest <= max(size, robots_file._LINE_KEPT)
