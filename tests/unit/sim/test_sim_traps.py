"""Endless spaces end within 500 pages, and real sites that look like them lose nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import count
from urllib.parse import parse_qsl, urlencode

import pytest

from schemas.crawl import CrawlSpec
from schemas.records import UrlBatch
from streams.dedup.traps import BUCKETS, MEMORY
from tests.unit.sim.endless import HOST, Crawl, Site, crawl

NAMES = ("news", "about", "team", "shop", "help")
MOST = 500
SEEDS = (1, 2, 3)


def prose(key: object, words: int = 40) -> str:
    """Words of one page's own."""
    rng = random.Random(str(key))
    made = ("".join(rng.choices("abdeiklmnorstu", k=rng.randint(3, 8))) for _ in range(words))
    return f"<p>{' '.join(made)}</p>"


def links(hrefs: Iterable[str]) -> str:
    """A list of links."""
    named = ((href, href.rstrip("/").rpartition("/")[2]) for href in hrefs)
    return "".join(f'<li><a href="{href}">{name or "home"}</a></li>' for href, name in named)


def query_of(path: str) -> dict[str, str]:
    """The parameters of a query."""
    return dict(parse_qsl(path.partition("?")[2]))


FRAME = prose("frame of all pages", 60)

# ---- traps: each makes a site with a state of its own


def relative_links() -> Site:
    """The same page at every path, with links that lack a leading slash."""
    return lambda path: FRAME + links(f"{name}/" for name in NAMES)


def many_relative_links() -> Site:
    """The same with a dozen names, without slashes at their ends."""
    return lambda path: FRAME + links(f"n{at}/x" for at in range(12))


def sections_with_relative_links() -> Site:
    """Each name has a text of its own, wherever it stands."""
    return lambda path: (
        prose(path.rstrip("/").rpartition("/")[2])
        + links(f"{name}/" for name in NAMES)
        + links(["/"])
    )


def path_printing() -> Site:
    """Each page prints its path, its breadcrumbs, a counter and the time."""
    hits = count(1)

    def site(path: str) -> str:
        crumbs = " &gt; ".join(part for part in path.split("/") if part)
        number = next(hits)
        told = f"<h1>{path}</h1><p>{crumbs}</p><p>visit {number} at 12:{number % 60:02}</p>"
        return told + FRAME + links(f"{name}/" for name in NAMES)

    return site


def absolute_path_printing() -> Site:
    """The server writes its own path into each link."""
    return lambda path: (
        f"<h1>Of {path}</h1>{FRAME}" + links(f"{path.rstrip('/')}/{name}/" for name in NAMES)
    )


def endless_calendar() -> Site:
    """Next month, for ever, and every month is empty."""
    return _months("/calendar?month={}-{:02}", events=lambda month: [])


def endless_calendar_of_paths() -> Site:
    """The same as folders, with a page for each day."""

    def site(path: str) -> str:
        parts = [int(part) for part in path.split("/") if part.isdigit()]
        if len(parts) < 2:
            return FRAME + links(["/events/2026/01/"])
        year, month = parts[:2]
        after = f"/events/{year + month // 12}/{month % 12 + 1:02}/"
        days = [f"/events/{year}/{month:02}/{day:02}/" for day in range(1, 29)]
        return FRAME + "<p>No events</p>" + links([after, *(days if len(parts) == 2 else [])])

    return site


def sort_and_filter() -> Site:
    """Each facet is a link that adds to the query; the list is the same but for order and size."""
    facets = {
        "sort": ("price", "name", "date", "rating"),
        "dir": ("up", "down"),
        "view": ("grid", "list", "table"),
        "size": ("s", "m", "l"),
        "color": ("red", "blue", "green"),
        "per": ("12", "24", "48"),
    }

    def site(path: str) -> str:
        chosen = query_of(path)
        rows = [
            number
            for number in range(24)
            if chosen.get("size", "sml"[number % 3]) == "sml"[number % 3]
        ]
        random.Random(path).shuffle(rows)
        listed = "".join(f'<a href="/item/{number}">{prose(number, 5)}</a>' for number in rows)
        if path.startswith("/item/"):
            return FRAME + prose(path)
        more = [
            "/list?" + urlencode({**chosen, name: value})
            for name, values in facets.items()
            for value in values
        ]
        return (
            FRAME
            + listed
            + "".join(f'<a href="{href.replace("&", "&amp;")}">x</a>' for href in more)
        )

    return site


def minted_sessions() -> Site:
    """Twenty pages, and each link to one has a session id of its own."""
    return _minted("/s/{}/p{}")


def minted_sessions_in_queries() -> Site:
    """The same in a parameter that nobody told us to ignore."""
    return _minted("/p{1}?ticket={0}")


def _minted(form: str) -> Site:
    rng = random.Random(form)

    def site(path: str) -> str:
        number = int(path.rpartition("/p")[2].partition("?")[0].strip("/") or 0)
        targets = [(number * 3 + step) % 20 for step in range(1, 6)]
        ids = ["".join(rng.choices("0123456789abcdef", k=24)) for _ in targets]
        hrefs = [form.format(one, at) for one, at in zip(ids, targets, strict=True)]
        return FRAME + prose(number) + "".join(f'<a href="{href}">go</a>' for href in hrefs)

    return site


def growing_query() -> Site:
    """Each page has links with one parameter more."""

    def site(path: str) -> str:
        chosen = path.partition("?")[2]
        at = chosen.count("=")
        more = [f"?{chosen}{'&amp;' if chosen else ''}k{at}={value}" for value in (1, 2)]
        return FRAME + links(more).replace(f"&{chosen}", chosen)

    return site


def slow_growth() -> Site:
    """One more parameter a page, along a single chain."""
    return lambda path: FRAME + f'<a href="?n={int(query_of(path).get("n", 0)) + 1}">more</a>'


TRAPS = [
    relative_links,
    many_relative_links,
    sections_with_relative_links,
    path_printing,
    absolute_path_printing,
    endless_calendar,
    endless_calendar_of_paths,
    sort_and_filter,
    minted_sessions,
    minted_sessions_in_queries,
    growing_query,
    slow_growth,
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_ends_within_500_pages(trap: Callable[[], Site], seed: int) -> None:
    found = crawl(trap(), seed=seed, most=1_000)
    assert len(found.fetched) <= MOST
    assert found.counts["rejected.trap"] == found.trapped[HOST] > 0


def _months(form: str, events: Callable[[int], list[str]], last: int | None = None) -> Site:
    """A calendar of months from January 2026 on, with links to the months around and the events."""

    def site(path: str) -> str | None:
        if path == "/":
            return FRAME + links([form.format(2026, 1)])
        if path.startswith("/event/"):
            return FRAME + prose(path)
        text = query_of(path)["month"]
        month = (int(text[:4]) - 2026) * 12 + int(text[5:]) - 1
        around = [at for at in (month - 1, month + 1) if at >= 0 and (last is None or at <= last)]
        hrefs = [form.format(2026 + at // 12, at % 12 + 1) for at in around]
        grid = "".join(f"<td>{day}</td>" for day in range(1, 29))
        listed = "".join(f'<a href="{href}">{prose(href, 4)}</a>' for href in events(month))
        return f"{FRAME}<h1>{text}</h1><table><tr>{grid}</table>{listed or 'No events'}" + links(
            hrefs
        )

    return site


# ---- real shapes: each with all the paths that a crawl must fetch, or all the texts


def catalogue(path: str) -> str | None:
    """Three levels of categories with equal names, listings in pages, items; relative links."""
    top = FRAME + links(["/", "/shoes/", "/hats/", "/bags/"])
    parts = [part for part in path.partition("?")[0].split("/") if part]
    page = int(query_of(path).get("page", 1))
    if len(parts) < 3 and not path.endswith(".html"):
        names = (["shoes", "hats", "bags"], ["men", "women", "kids"], ["sale", "new", "basic"])
        return top + links(f"{name}/" for name in names[len(parts)])
    if path.endswith(".html"):
        return top + prose(path, 12) + links(["./", "/"])
    items = [f"item-{number}.html" for number in range(8 * page, 8 * page + 8)]
    listed = "".join(f'<a href="{item}">{prose([*parts, item], 3)}</a>' for item in items)
    return top + listed + (f'<a href="?page={page + 1}">more</a>' if page < 4 else "")


def calendar(path: str) -> str | None:
    """Twenty years, with events in a few months only, the last one at the end."""
    return _months("/calendar?month={}-{:02}", _some_events, last=239)(path)


def calendar_of_days(path: str) -> str | None:
    """Four years as folders, a page for each day, events in a few months."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        return FRAME + links(["/events/2026/01/"])
    if len(parts) == 4:
        return FRAME + "<p>Nothing on this day</p>" + links(["../", "/"])
    if parts[0] == "event":
        return FRAME + prose(path)
    month = (int(parts[1]) - 2026) * 12 + int(parts[2]) - 1
    after = month + 1
    days = [f"{day:02}/" for day in range(1, 29)] if month % 6 == 0 else []
    ahead = [f"/events/{2026 + after // 12}/{after % 12 + 1:02}/"] if after < 48 else []
    listed = "".join(f'<a href="{href}">{prose(href, 4)}</a>' for href in _events_a_year(month))
    return FRAME + (listed or "No events") + links([*days, *ahead])


def _some_events(month: int) -> list[str]:
    return [f"/event/{month}-{at}" for at in range(3)] if month % 37 == 0 or month == 239 else []


def _events_a_year(month: int) -> list[str]:
    return [f"/event/{month}-{at}" for at in range(3)] if month % 13 == 12 else []


def session_paths() -> Site:
    """150 pages; each visit of the front begins a session, whose id all of its links keep."""
    rng = random.Random(5)

    def site(path: str) -> str:
        parts = [part for part in path.split("/") if part]
        session = parts[1] if parts else "".join(rng.choices("0123456789abcdef", k=24))
        number = int(parts[2]) if len(parts) > 2 else 0
        # One page in fifteen has a link that begins another session.
        other = "".join(rng.choices("0123456789abcdef", k=24))
        targets = [f"/s/{session}/{(number * 2 + step) % 150}" for step in (1, 2)]
        targets += [f"/s/{other}/{number}"] if number % 15 == 0 else []
        return FRAME + prose(number) + "".join(f'<a href="{href}">go</a>' for href in targets)

    return site


def gallery(path: str) -> str | None:
    """400 pages without a word of their own, told apart by their images."""
    number = int(query_of(path).get("shot", 0))
    ahead = f'<a href="/album?shot={number + 1}">next</a>' if number < 399 else ""
    return f'{FRAME}<img src="/shots/{number}.jpg">{ahead}'


def tables(path: str) -> str | None:
    """400 pages of nothing but figures, each linked from the one before."""
    day = int(query_of(path).get("day", 0))
    rng = random.Random(day)
    rows = "".join(f"<tr><td>{hour}<td>{rng.random():.2f}" for hour in range(24))
    return f"{FRAME}<table>{rows}</table>" + (links([f"?day={day + 1}"]) if day < 399 else "")


def versions(path: str) -> str | None:
    """Thirty copies of a manual, alike but for the number, in relative links."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        return FRAME + links(f"/docs/{number}.0/" for number in range(30))
    if path.endswith("/"):
        return FRAME + links([f"guide/{name}.html" for name in NAMES] + ["api/"] * (len(parts) < 3))
    return FRAME + prose(parts[-1]) + links(["../", "/"])


def samples(path: str) -> str | None:
    """Four hundred folders with the same listing, and files that tell something in each."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        return links(f"samples/{number}/" for number in range(400))
    if len(parts) == 2:
        return FRAME + links(["raw/", "meta/"])
    return FRAME + prose(path)


def archive(path: str) -> str | None:
    """100 pages of an archive, 300 articles with a print version and another language each."""
    if path.startswith("/article/"):
        number, chosen = path.partition("?")[0], query_of(path)
        text = prose((number, chosen.get("lang", "en")))
        return FRAME + text + links([f"{number}?print=1", f"{number}?lang=de", number, "/"])
    page = int(query_of(path).get("page", 0))
    ahead = [f"?page={page + 1}"] if page < 99 else []
    listed = "".join(
        f'<a href="/article/{3 * page + at}">{prose((page, at), 5)}</a>' for at in range(3)
    )
    return FRAME + listed + links(ahead)


def soft_404(path: str) -> str | None:
    """Forty pages with a broken relative link each, which are answered 200 with the navigation."""
    nav = FRAME + links(f"/p/{number}" for number in range(40))
    if path == "/" or (path.startswith("/p/") and path[3:].isdigit()):
        return nav + prose(path) + links([f"lost-{path[3:]}/"])
    return nav + "<p>Not found</p>"


def empty_searches(path: str) -> str | None:
    """Tags of which most have nothing, and the rest articles."""
    tag = int(query_of(path).get("tag", 0))
    if path.startswith("/article/"):
        return FRAME + prose(path)
    other = [f"/search?tag={2 * tag + step}" for step in (1, 2) if 2 * tag + step < 150]
    found = [f"/article/{tag}-{at}" for at in range(3)] if tag % 7 == 0 else []
    return FRAME + (links(found) or "Nothing found") + links(other)


REAL = [
    catalogue,
    calendar,
    calendar_of_days,
    gallery,
    tables,
    versions,
    samples,
    archive,
    soft_404,
    empty_searches,
]


@pytest.mark.parametrize("seed", SEEDS[:1])
@pytest.mark.parametrize("site", REAL)
def test_a_real_site_loses_nothing(site: Site, seed: int) -> None:
    free = {"calendar_budget": 100_000}
    whole = crawl(site, seed=seed, trap_budget=None, **free)
    assert 0 < len(whole.fetched) < 3_000
    found = crawl(site, seed=seed, **free)
    assert set(whole.fetched) - set(found.fetched) == set()
    assert found.counts["rejected.trap"] == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_session_ids_in_paths_lose_no_page_and_end(seed: int) -> None:
    found = crawl(session_paths(), seed=seed)
    assert len(found.texts) == 150
    assert len(found.fetched) < 3_000


@pytest.mark.parametrize("seed", SEEDS)
def test_a_trap_in_a_corner_of_a_living_site_ends_and_costs_the_site_nothing(seed: int) -> None:
    def site(path: str) -> str | None:
        if path.startswith("/forum/"):
            return prose("forum", 60) + links(f"{name}/" for name in NAMES)
        body = catalogue(path)
        return None if body is None else body + links(["/forum/"])

    alone = set(crawl(catalogue, seed=seed).fetched)
    found = crawl(site, seed=seed)
    corner = [path for path in found.fetched if path.startswith("/forum/")]
    assert alone <= set(found.fetched)
    assert 10 < len(corner) <= 300


def test_without_a_budget_a_trap_has_no_end() -> None:
    found = crawl(relative_links(), trap_budget=None, most=1_000)
    assert (len(found.fetched), found.counts["rejected.trap"]) == (1_000, 0)


@pytest.mark.parametrize("budget", [1, 50])
def test_the_budget_is_what_is_admitted_from_repeats(budget: int) -> None:
    found = crawl(relative_links(), trap_budget=budget)
    # The front and its five names, and the links of those names that tell it first.
    assert budget < len(found.fetched) <= budget + 1 + 5 + 5 * len(NAMES) + 25


@pytest.mark.parametrize("trap", [relative_links, endless_calendar, minted_sessions])
def test_a_message_judged_again_admits_nothing_and_counts_nothing(
    trap: Callable[[], Site],
) -> None:
    """At once, and after any of the messages that came after it."""
    found = Crawl(trap(), CrawlSpec(crawl="c", trap_budget=30))
    rng = random.Random(7)
    taken = found.take

    def twice(batch: UrlBatch) -> None:
        taken(batch)
        for offset in {len(found.messages), rng.randint(1, len(found.messages))}:
            again = found.judge(found.messages[offset - 1], offset)
            assert again.admitted == []
            assert [key for key in again.rows if key[:1] == b"t" and len(key) == 17] == []

    found.take = twice  # type: ignore[method-assign]
    found.run("/", seed=1, most=400)
    assert found.counts["rejected.trap"] > 0


def test_what_is_kept_of_a_host_is_bounded() -> None:
    found = crawl(lambda path: prose(path) + links(f"{name}/" for name in NAMES), most=2_000)
    kept = {key: row for key, row in found.rows.items() if len(key) == 17}
    assert len(found.texts) == 2_000
    assert len(kept) <= BUCKETS + 2
    assert max(map(len, kept.values())) <= MEMORY * 27
