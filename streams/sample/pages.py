"""The ordinary pages: what a visitor of the station's website comes for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from streams.sample.html import STATION, Article, document, link, link_list, prose
from streams.sample.model import Expected, Page, Response
from streams.sample.words import number, paragraphs, pick, sentence, slug

HTML: Final = ("Content-Type", "text/html; charset=utf-8")
CODINGS: Final = ("", "gzip", "br", "zstd", "deflate")

GROUPS: Final = {
    "Seabirds": ("Razorbill", "Guillemot", "Kittiwake", "Fulmar", "Shag", "Black Guillemot"),
    "Waders": ("Dunlin", "Knot", "Sanderling", "Ringed Plover", "Turnstone", "Whimbrel"),
    "Wildfowl": ("Eider", "Scoter", "Brent Goose", "Shelduck", "Teal", "Pintail"),
    "Mammals": (
        "Grey Seal",
        "Common Seal",
        "Otter",
        "Harbour Porpoise",
        "Water Vole",
        "Pipistrelle",
    ),
    "Fishes": ("Lumpsucker", "Butterfish", "Sand Eel", "Shanny", "Pipefish", "Bass"),
    "Molluscs": ("Dog Whelk", "Limpet", "Cockle", "Razor Clam", "Periwinkle", "Sea Hare"),
    "Seaweeds": ("Sugar Kelp", "Bladder Wrack", "Dulse", "Laver", "Thongweed", "Sea Lettuce"),
    "Plants": ("Thrift", "Sea Holly", "Marram", "Samphire", "Sea Kale", "Oysterplant"),
}
PEOPLE: Final = (
    ("anna", "Anna Whitlock", "warden"),
    ("bashir", "Bashir Osei", "tide gauges"),
    ("carmen", "Carmen Ruiz", "ringing"),
    ("dewi", "Dewi Pryce", "boats"),
    ("edda", "Edda Lindqvist", "seaweeds"),
    ("farid", "Farid Haddad", "library"),
    ("greta", "Greta Novak", "school visits"),
)
TRAILS: Final = (
    "Lighthouse Loop",
    "Shingle Walk",
    "Eelgrass Boardwalk",
    "Gull Stones at Low Tide",
    "Old Quarry Path",
    "Estuary Hide",
    "Dune Ridge",
    "Pilgrim Stair",
    "Marker Nine",
    "Saltings Crossing",
    "North Cliff",
    "Harbour to Hill",
)
POSTS: Final = ("Gull Stones", "Marker Nine", "Saltings", "Lighthouse", "Quarry", "Breakwater")
INSTRUMENTS: Final = ("Anemometer", "Tide Gauge", "Thermistor Chain", "Turbidity Probe")
YEARS: Final = (2022, 2023, 2024, 2025)
POSTS_A_YEAR: Final = 30
PAGE_SIZE: Final = 10
DEPOSIT_BOXES: Final = 18
_TOPICS: Final = (
    "Notes from the hide",
    "What the tide left",
    "Counting",
    "A morning with",
    "Questions about",
    "The return of",
)


class Entry(NamedTuple):
    """One journal article."""

    target: str
    title: str
    article: Article


def html_page(
    base: str,
    target: str,
    title: str,
    main: str,
    *,
    description: str = "",
    article: Article | None = None,
    crumbs: Sequence[tuple[str, str]] = (),
    head: str = "",
    spellings: tuple[str, ...] = (),
) -> Page:
    """An ordinary HTML page, its content coding decided by its target."""
    text = document(
        title,
        main,
        url=base + target,
        description=description,
        article=article,
        crumbs=crumbs,
        head=head,
    )
    response = Response(headers=(HTML,), body=text.encode(), coding=pick(target, CODINGS))
    return Page(target, (response,), Expected("record", "html", 200, title=title), spellings)


def ordinary_pages(base: str) -> Iterator[Page]:
    """All pages of this module.

    Args:
        base: scheme, host and port that absolute links begin with.
    """
    yield from _species(base)
    yield from _trails(base)
    yield from _journal(base)
    yield from _stations(base)
    yield from _people(base)
    yield from _deposit(base)


def entries() -> list[Entry]:
    """The journal's articles, oldest first."""
    names = [name for species in GROUPS.values() for name in species]
    found = []
    for year in YEARS:
        for n in range(POSTS_A_YEAR):
            key = f"journal/{year}/{n}"
            month, day = 1 + n * 12 // POSTS_A_YEAR, 1 + number(f"{key}/day", 28)
            title = f"{pick(f'{key}/topic', _TOPICS)}: {pick(f'{key}/name', names)}"
            author = pick(f"{key}/author", PEOPLE)[1]
            published = f"{year}-{month:02}-{day:02}T08:30:00Z"
            modified = f"{year}-{month:02}-{day:02}T17:00:00Z" if n % 3 == 0 else ""
            target = f"/journal/{year}/{n + 1:02}-{slug(title)}.html"
            found.append(Entry(target, title, Article(author, published, modified)))
    return found


def species_target(group: str, name: str) -> str:
    """Where the page of a species is."""
    return f"/species/{slug(group)}/{slug(name)}.html"


def _species(base: str) -> Iterator[Page]:
    groups = [(f"/species/{slug(group)}/", group) for group in GROUPS]
    sorted_view = "/species/?order=asc&sort=name"
    top = [("/", "Home")]
    yield html_page(
        base,
        "/species/",
        "Species of the reserve",
        prose(paragraphs("species", 2)) + link_list(groups) + link(sorted_view, "Sorted by name"),
        crumbs=top,
    )
    every = sorted((name, group) for group, names in GROUPS.items() for name in names)
    yield html_page(
        base,
        sorted_view,
        "All species by name",
        link_list((species_target(group, name), name) for name, group in every)
        + link("?sort=name&order=asc", "Refresh"),
        crumbs=[*top, ("/species/", "Species")],
        spellings=("/species/?sort=name&order=asc",),
    )
    for group, names in GROUPS.items():
        here = f"/species/{slug(group)}/"
        crumbs = [*top, ("../", "Species")]
        links = [(f"{slug(name)}.html", name) for name in names]
        yield html_page(
            base, here, group, prose(paragraphs(here, 2)) + link_list(links), crumbs=crumbs
        )
        for n, name in enumerate(names):
            following = names[(n + 1) % len(names)]
            trail = pick(f"{name}/trail", TRAILS)
            yield html_page(
                base,
                species_target(group, name),
                f"{name} | {group}",
                f"<h2>Where to look</h2>{prose(paragraphs(name, 4))}"
                f"<p>{link(f'/trails/{slug(trail)}/', trail)}"
                f" {link(f'./{slug(following)}.html#notes', following)}</p>"
                f"<h2 id='notes'>Notes</h2>{prose(paragraphs(f'{name}/notes', 2))}",
                description=sentence(f"{name}/description"),
                crumbs=[*crumbs, ("./", group)],
            )


def _trails(base: str) -> Iterator[Page]:
    crumbs = [("/", "Home"), ("/trails/", "Trails")]
    links = [(f"{slug(name)}/", name) for name in TRAILS]
    yield html_page(
        base, "/trails/", "Trails", prose(paragraphs("trails", 2)) + link_list(links), crumbs=crumbs
    )
    for name in TRAILS:
        here = f"/trails/{slug(name)}/"
        yield html_page(
            base,
            here,
            f"Trail: {name}",
            prose(paragraphs(here, 3)) + link("directions.html", "Directions"),
            crumbs=crumbs,
        )
        yield html_page(
            base,
            f"{here}directions.html",
            f"Directions: {name}",
            "<ol>" + "".join(f"<li>{sentence(f'{here}{n}')}</li>" for n in range(8)) + "</ol>",
            crumbs=[*crumbs, ("./", name)],
        )


def _journal(base: str) -> Iterator[Page]:
    found = entries()
    crumbs = [("/", "Home"), ("/journal/", "Journal")]
    years = [(f"{year}/", str(year)) for year in YEARS]
    newest = [(entry.target, entry.title) for entry in found[:-6:-1]]
    yield html_page(
        base,
        "/journal/",
        "Journal",
        link_list(years) + link_list(newest) + link("café.html", "Café news"),
        crumbs=crumbs,
        head='<link rel="alternate" type="application/rss+xml" href="/feed.xml">',
    )
    for at, year in enumerate(YEARS):
        own = found[at * POSTS_A_YEAR : (at + 1) * POSTS_A_YEAR]
        pages = POSTS_A_YEAR // PAGE_SIZE
        for page in range(1, pages + 1):
            shown = own[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
            target = f"/journal/{year}/" + (f"?page={page}" if page > 1 else "")
            later = link(f"?page={page + 1}", "Older articles") if page < pages else ""
            yield html_page(
                base,
                target,
                f"Journal {year}" + (f", page {page}" if page > 1 else ""),
                link_list((entry.target, entry.title) for entry in shown) + later,
                crumbs=crumbs,
            )
    for at, entry in enumerate(found):
        before = found[at - 1]
        above = f"{entry.target.rpartition('/')[0]}/"
        yield html_page(
            base,
            entry.target,
            entry.title,
            prose(paragraphs(entry.target, 6))
            + link(f"{before.target}?utm_source=journal&utm_medium=web", before.title),
            description=sentence(f"{entry.target}/description"),
            article=entry.article,
            crumbs=[*crumbs, (above, above.split("/")[2])],
            spellings=(f"{entry.target}?utm_source=journal&utm_medium=web",),
        )


def _stations(base: str) -> Iterator[Page]:
    crumbs = [("/", "Home"), ("/stations/", "Stations")]
    links = [(f"{slug(post)}/", post) for post in POSTS]
    yield html_page(
        base,
        "/stations/",
        "Measuring stations",
        prose(paragraphs("stations", 2)) + link_list(links),
        crumbs=crumbs,
    )
    for post in POSTS:
        here = f"/stations/{slug(post)}/"
        parts = [(f"instruments/{slug(item)}.html", item) for item in INSTRUMENTS]
        yield html_page(
            base,
            here,
            f"Station {post}",
            prose(paragraphs(here, 2)) + link_list(parts),
            crumbs=crumbs,
        )
        for item in INSTRUMENTS:
            target = f"{here}instruments/{slug(item)}.html"
            yield html_page(
                base,
                target,
                f"{item} at {post}",
                prose(paragraphs(target, 2)) + link("../", f"Station {post}"),
                crumbs=[*crumbs, ("../", post)],
            )


def _people(base: str) -> Iterator[Page]:
    crumbs = [("/", "Home"), ("/people/", "People")]
    links = [
        (f"%7E{name}" if n % 2 else f"~{name}", full) for n, (name, full, _) in enumerate(PEOPLE)
    ]
    yield html_page(base, "/people/", "People", link_list(links), crumbs=crumbs)
    for name, full, work in PEOPLE:
        yield html_page(
            base,
            f"/people/~{name}",
            full,
            f"<p>Works on {work} at {STATION}.</p>{prose(paragraphs(name, 2))}",
            crumbs=crumbs,
            spellings=(f"/people/%7E{name}",),
        )


def _deposit(base: str) -> Iterator[Page]:
    """Pages that only a sitemap names."""
    for n in range(1, DEPOSIT_BOXES + 1):
        target = f"/deposit/box-{n:02}.html"
        yield html_page(
            base, target, f"Notebook box {n}", prose(paragraphs(target, 3)), crumbs=[("/", "Home")]
        )
