"""The pages that crawlers trip over, each under a plausible pretext."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import shake_256
from ipaddress import IPv4Address
from typing import Final
from urllib.parse import urlsplit

from schemas.admission import MAX_SEGMENT_REPEATS
from streams.sample.html import document, link, link_list, prose
from streams.sample.model import Expected, Page, Response
from streams.sample.pages import HTML, html_page
from streams.sample.words import paragraphs

ELSEWHERE: Final = "http://observatory.example"
CALENDAR_BUDGET: Final = 12
"""`CrawlSpec.calendar_budget` of the sample's spec: one year."""
FIRST_YEAR: Final = 2026
SLOW_S: Final = 0.5
BIG_BYTES: Final = 600_000
"""Random digits, so that no coding brings the page under the inline limit of a message."""
_TOP: Final = (("/", "Home"),)
_FOUND: Final = Expected("record", "html", 200)
_HOW: Final = "/visit/how-to-find-us.html"


def odd_pages(base: str) -> Iterator[Page]:
    """All pages of this module, and the pages that link to them."""
    yield from _front(base)
    yield from _duplicates(base)
    yield from _redirects(base)
    yield from _errors(base)
    yield from _robots(base)
    yield from _endless()


def other_urls(base: str) -> Iterator[tuple[str, Expected]]:
    """URLs that the pages mention and that are no pages of ours, or must never be asked for."""
    for target in (
        "/guestbook/spam.html",
        "/guestbook/entry-1.html",
        "/library/shelf/tides.html",
        "/drafts/unpublished.html",
        "/drafts/scripted.html",
    ):
        yield base + target, Expected("absent", requests=0)
    out = Expected("rejected", reason="out_of_scope", requests=0)
    yield f"{ELSEWHERE}/", out
    yield f"{ELSEWHERE}/nights", out
    yield (
        base + calendar_target(CALENDAR_BUDGET),
        Expected("rejected", reason="calendar_trap", requests=0),
    )
    yield (
        base + onward_target(MAX_SEGMENT_REPEATS + 1),
        Expected("rejected", reason="trap", requests=0),
    )


def calendar_target(month: int) -> str:
    """The page of a month, counted from the first."""
    return f"/calendar/{FIRST_YEAR + month // 12}/{month % 12 + 1:02}/"


def calendar_page(target: str, expected: Expected) -> Page | None:
    """Any month of the endless calendar, or None when the target is not one."""
    parts = target.split("/")
    if len(parts) != 5 or parts[1] != "calendar" or not (parts[2] + parts[3]).isdigit():
        return None
    month = (int(parts[2]) - FIRST_YEAR) * 12 + int(parts[3]) - 1
    if month < 0 or calendar_target(month) != target:
        return None
    links = [(calendar_target(month + 1), "Next month")]
    if month:
        links.append((calendar_target(month - 1), "Month before"))
    title = f"Calendar {parts[2]}-{parts[3]}"
    main = prose(paragraphs(target, 1)) + link_list(links)
    response = Response(headers=(HTML,), body=document(title, main, crumbs=_TOP).encode())
    return Page(target, (response,), expected)


def onward_target(steps: int) -> str:
    """The page that a number of relative links from the signpost leads to."""
    return "/signpost/" + "onward/" * steps


def onward_page(target: str, expected: Expected) -> Page | None:
    """Any page of the signpost whose path grows with each link, or None."""
    steps = target.count("onward/")
    if onward_target(steps) != target:
        return None
    main = prose(paragraphs(target, 1)) + link("onward/", "Onward")
    body = document(f"Signpost {steps}", main, crumbs=_TOP).encode()
    return Page(target, (Response(headers=(HTML,), body=body),), expected)


def _front(base: str) -> Iterator[Page]:
    yield html_page(
        base,
        "/",
        "Harrow Point Field Station",
        prose(paragraphs("home", 3))
        + link_list([("/calendar/2026/01/", "Calendar"), ("/signpost/", "Signpost")]),
        head='<link rel="alternate" type="application/rss+xml" href="/feed.xml">',
    )
    about = ["contact", "history", "funding", "volunteers", "privacy", "website"]
    links = [(f"{name}.html", name.capitalize()) for name in about]
    yield html_page(base, "/about/", "About the station", link_list(links), crumbs=_TOP)
    for name in about[:-1]:
        target = f"/about/{name}.html"
        yield html_page(base, target, name.capitalize(), prose(paragraphs(target, 3)), crumbs=_TOP)
    visit = [
        (_HOW, "How to find us"),
        ("tickets.html", "Tickets"),
        ("print.html", "For print"),
        ("/languages/russian.html", "По-русски"),
        ("/languages/japanese.html", "日本語"),
        ("/languages/greek.html", "Ελληνικά"),
        ("/languages/french.html", "Français"),
    ]
    yield html_page(
        base,
        "/visit/",
        "Visit",
        prose(paragraphs("visit", 2))
        + link_list(visit)
        + '<map name="site"><area href="/visit/quay.html" alt="Quay" coords="1,1,9,9"></map>',
        crumbs=_TOP,
    )
    for name in ("quay", "harbour", "print-map"):
        target = f"/visit/{name}.html"
        yield html_page(
            base,
            target,
            f"Visit: {name}",
            prose(paragraphs(target, 2)) + link("harbour.html", "The harbour"),
            crumbs=_TOP,
        )


def _duplicates(base: str) -> Iterator[Page]:
    """One page under many spellings, listed by the notes about the website."""
    parts = urlsplit(base)
    address, port = parts.hostname or "", parts.port
    number = int(IPv4Address(address))
    spelled = (
        f"{_HOW}#map",
        f"{_HOW}?",
        f"{_HOW}?utm_source=leaflet&utm_campaign=spring",
        f"{_HOW}?PHPSESSID=0af31c",
        f"{_HOW};jsessionid=1F",
        "/visit/how%2Dto-find-us.html",
        "/visit/./x/../how-to-find-us.html",
        "\\visit\\how-to-find-us.html",
        f" //{address}:{port}{_HOW}\n",
        f"HTTP://{address}:0{port}{_HOW}",
        f"http://0x{number:X}:{port}{_HOW}",
        f"http://{number}:{port}{_HOW}",
        f"http://{address}.:{port}{_HOW}",
        f"http://guest:guest@{address}:{port}{_HOW}",
    )
    yield html_page(
        base,
        _HOW,
        "How to find us",
        prose(paragraphs(_HOW, 3)),
        crumbs=_TOP,
        spellings=(
            f"{_HOW}?",
            f"{_HOW}?utm_source=leaflet&utm_campaign=spring",
            f"{_HOW}?PHPSESSID=0af31c",
            f"{_HOW};jsessionid=1F",
            "/visit/how%2Dto-find-us.html",
        ),
    )
    yield html_page(
        base,
        "/journal/caf%C3%A9.html",
        "Café news",
        prose(paragraphs("café", 2)) + link("/journal/caf%c3%a9.html", "Again"),
        crumbs=_TOP,
        spellings=("/journal/caf%c3%a9.html",),
    )
    hidden = (
        '<!-- <a href="/drafts/unpublished.html">draft</a> -->'
        "<script>document.title = '<a href=\"/drafts/scripted.html\">';</script>"
    )
    others = (
        "/staff/",
        "/maps/",
        "/files/",
        "/guestbook/",
        "/library/shelf/",
        f"{ELSEWHERE}/nights",
        "tel:+15550100",
        "javascript:void(0)",
        "data:text/html,hello",
    )
    yield html_page(
        base,
        "/about/website.html",
        "Notes about this website",
        link_list((href, f"Spelling {n}") for n, href in enumerate(spelled))
        + link_list((href, href) for href in others)
        + link("/guestbook/spam.html", "Pills", 'rel="nofollow ugc"')
        + hidden,
        crumbs=_TOP,
    )


def _redirect(target: str, location: str, status: int = 301) -> Page:
    response = Response(status, (("Location", location), HTML), b"<p>Moved.</p>")
    return Page(target, (response,), Expected("record", "redirect", status))


def _redirects(base: str) -> Iterator[Page]:
    links = (
        ("/maps/1911", "The map of 1911"),
        ("/maps/index", "Index"),
        ("/maps/north", "North sheet"),
        ("/maps/here", "You are here"),
        ("/maps/sky", "Sky map"),
        ("/maps/depths", "Depths"),
        ("/maps/guide/%7Eshort", "Short guide"),
    )
    yield html_page(base, "/maps/", "Maps", link_list(links), crumbs=_TOP)
    yield _redirect("/maps/1911", "1911/scan")
    yield _redirect("/maps/1911/scan", f"{base}/maps/1911/scan/", 302)
    yield _redirect("/maps/1911/scan/", "/maps/1911/scan/sheet-1.html", 308)
    yield html_page(base, "/maps/1911/scan/sheet-1.html", "Sheet 1", prose(paragraphs("1911", 2)))
    yield _redirect("/maps/index", "/maps/", 303)
    yield _redirect("/maps/north", "/maps/south", 302)
    back = Response(302, (("Location", "/maps/north"), HTML), b"<p>Moved.</p>")
    yield Page("/maps/south", (back,), Expected("dead_letter", reason="too_many_redirects"))
    yield _redirect("/maps/sky", f"{ELSEWHERE}/", 302)
    yield _redirect("/maps/depths", "/private/depths.html", 307)
    here = Response(302, (("Location", "/maps/here"),))
    yield Page(
        "/maps/here",
        (here,),
        Expected("dead_letter", reason="too_many_redirects", requests=None),
    )
    text = document("Short guide", prose(paragraphs("short", 2)), crumbs=_TOP)
    yield Page(
        "/maps/guide/~short",
        (Response(headers=(HTML,), body=text.encode()),),
        Expected("record", "html", 200, title="Short guide", requests=2),
        spellings=("/maps/guide/%7Eshort",),
        redirects_to_target=True,
    )
    text = document("Tickets", prose(paragraphs("tickets", 2)), crumbs=_TOP)
    yield Page(
        "/visit/tickets.html",
        (Response(headers=(HTML,), body=text.encode()),),
        Expected("record", "html", 200, title="Tickets", requests=2),
        cookie="consent=yes",
    )


def _errors(base: str) -> Iterator[Page]:
    names = ("tides", "weather", "rainfall", "slow", "cut", "satellite", "soundings")
    links = [(f"{name}.html", name.capitalize()) for name in names]
    yield html_page(base, "/reports/", "Reports", link_list(links), crumbs=_TOP)
    yield html_page(
        base,
        "/library/",
        "Library",
        link_list(
            [
                ("lost.html", "Lost"),
                ("withdrawn.html", "Withdrawn"),
                ("members.html", "Members"),
                ("export", "Export"),
            ]
        ),
        crumbs=_TOP,
    )
    yield from _lasting_errors()
    yield from _passing_errors()
    yield from _odd_bodies()


def _lasting_errors() -> Iterator[Page]:
    for target, status, reason in (
        ("/library/lost.html", 404, "http_4xx"),
        ("/library/withdrawn.html", 410, "http_4xx"),
        ("/library/members.html", 403, "http_4xx"),
        ("/library/export", 501, "http_5xx"),
    ):
        body = document(f"Error {status}", "<p>Sorry.</p>").encode()
        yield Page(
            target,
            (Response(status, (HTML,), body),),
            Expected("dead_letter", status=status, reason=reason),
        )
    body = document("Error 504", "<p>The gateway gave up.</p>").encode()
    yield Page(
        "/reports/satellite.html",
        (Response(504, (HTML,), body),),
        Expected("dead_letter", status=504, reason="http_504", attempts=4, requests=4),
    )


def _passing_errors() -> Iterator[Page]:
    for name, first in (
        ("tides", Response(500, (HTML,), b"<p>Try again.</p>")),
        ("weather", Response(503, (HTML, ("Retry-After", "1")), b"<p>Busy.</p>")),
        ("rainfall", Response(200, (HTML,), b"<p>" + b"rain " * 2_000, cut=True)),
    ):
        title = f"Report: {name}"
        body = document(title, prose(paragraphs(name, 4)), crumbs=_TOP).encode()
        yield Page(
            f"/reports/{name}.html",
            (first, Response(headers=(HTML,), body=body)),
            Expected("record", "html", 200, title=title, attempts=2, requests=2),
        )


def _odd_bodies() -> Iterator[Page]:
    cut = Response(200, (HTML,), b"<p>" + b"gone " * 2_000, cut=True)
    yield Page(
        "/reports/cut.html",
        (cut,),
        Expected("record", "html", 200, attempts=4, truncated=True, requests=4),
    )
    body = document("Report: slow", prose(paragraphs("slow", 3)), crumbs=_TOP).encode()
    yield Page("/reports/slow.html", (Response(headers=(HTML,), body=body, wait_s=SLOW_S),), _FOUND)
    digits = shake_256(b"soundings").hexdigest(BIG_BYTES // 2)
    rows = "\n".join(f"<p>{digits[at : at + 100]}</p>" for at in range(0, BIG_BYTES, 100))
    body = document("Soundings", rows, crumbs=_TOP).encode()
    yield Page(
        "/reports/soundings.html",
        (Response(headers=(HTML,), body=body, coding="gzip"),),
        Expected("record", "html", 200, title="Soundings"),
    )


def _robots(base: str) -> Iterator[Page]:
    links = (
        ("/private/rota.html", "Rota"),
        ("/private/open-day.html", "Open day"),
        ("/search?q=otter", "Search"),
    )
    yield html_page(base, "/staff/", "Staff", link_list(links), crumbs=_TOP)
    denied = Expected("dead_letter", reason="robots_denied", requests=0)
    for target in ("/private/rota.html", "/private/depths.html", "/search?q=otter"):
        body = document("Private", "<p>Not for robots.</p>").encode()
        yield Page(target, (Response(headers=(HTML,), body=body),), denied)
    yield html_page(base, "/private/open-day.html", "Open day", prose(paragraphs("open", 2)))
    yield html_page(
        base,
        "/visit/print.html",
        "Visit, for print",
        link("print-map.html", "Map for print"),
        head='<meta name="robots" content="noindex">',
    )
    yield html_page(
        base,
        "/guestbook/",
        "Guest book",
        link("entry-1.html", "First entry"),
        head='<meta name="ROBOTS" content="nofollow">',
    )
    yield html_page(
        base,
        "/library/shelf/",
        "Shelf",
        link("tides.html", "Tides, 1934"),
        head='<base href="/library/books/">',
    )
    yield html_page(base, "/library/books/tides.html", "Tides, 1934", prose(paragraphs("1934", 2)))


def _endless() -> Iterator[Page]:
    for month in range(CALENDAR_BUDGET):
        page = calendar_page(calendar_target(month), _FOUND)
        if page:
            yield page
    for steps in range(MAX_SEGMENT_REPEATS + 1):
        page = onward_page(onward_target(steps), _FOUND)
        if page:
            yield page
