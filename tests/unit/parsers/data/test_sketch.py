from __future__ import annotations

import random

import pytest

from parsers.data.simhash import distance, simhash
from parsers.data.sketch import sketch
from streams.dedup.traps import near


def prose(seed: int, words: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(3, 9))) for _ in range(words)]


def same(one: str, other: str) -> bool:
    left, right = sketch(one, []), sketch(other, [])
    assert left is not None
    assert right is not None
    return near(left, right)


@pytest.mark.parametrize("length", [20, 60, 600])
def test_a_printed_path_a_counter_and_the_time_change_nothing(length: int) -> None:
    for seed in range(40):
        text = " ".join(prose(seed, length))
        assert same(f"{text} /news/ visit 12 at 09:55", f"/news/a/ visit 12 at 10:01 {text}")


@pytest.mark.parametrize("length", [20, 60, 600])
def test_ten_words_of_a_pages_own_tell_it_apart_however_long_the_frame(length: int) -> None:
    frame = " ".join(prose(1, length))
    own = [" ".join(prose(seed, 10)) for seed in range(100, 160)]
    assert not any(
        same(f"{frame} {one}", f"{frame} {other}") for one in own for other in own if one != other
    )


def test_the_order_and_the_number_of_words_do_not_matter() -> None:
    words = prose(2, 100)
    assert same(" ".join(words), " ".join(sorted(words) * 2))


def test_images_count_exactly() -> None:
    assert sketch("one two", ["/a.jpg"]) != sketch("one two", ["/b.jpg"])
    left, right = sketch("one two", ["/a.jpg"]), sketch("one two", ["/b.jpg"])
    assert left is not None
    assert right is not None
    assert not near(left, right)


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_a_page_without_words_has_no_sketch(text: str) -> None:
    assert sketch(text, ["/a.jpg"]) is None


def test_any_text_has_twenty_bytes() -> None:
    for text in ("a", "\ud800 x", "語" * 10, "w " * 50_000):
        found = sketch(text, ["\ud800"])
        assert found is not None
        assert len(found) == 20


def test_why_it_is_no_simhash() -> None:
    """A printed path in a short page is further than another product in a long frame."""
    short, frame = " ".join(prose(3, 30)), " ".join(prose(4, 600))
    trap = distance(simhash(f"{short} /news/"), simhash(f"{short} /news/about/ nr 7"))
    product = distance(
        simhash(f"{frame} {' '.join(prose(5, 10))}"), simhash(f"{frame} {' '.join(prose(6, 10))}")
    )
    assert trap > product
