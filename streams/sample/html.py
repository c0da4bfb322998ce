"""The station's page layout."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

STATION: Final = "Harrow Point Field Station"

_NAVIGATION: Final = (
    ("/", "Home"),
    ("/visit/", "Visit"),
    ("/species/", "Species"),
    ("/trails/", "Trails"),
    ("/journal/", "Journal"),
    ("/stations/", "Stations"),
    ("/people/", "People"),
    ("/library/", "Library"),
    ("/reports/", "Reports"),
    ("/about/", "About"),
)
_CSS: Final = (
    "body{font:16px/1.6 serif;max-width:46em;margin:auto;padding:1em}"
    "nav a{margin-right:1em}footer{color:#567;border-top:1px solid #cde;margin-top:3em}"
)


@dataclass(frozen=True, slots=True)
class Article:
    """Authorship and dates of a page, as ISO 8601 text."""

    author: str
    published: str
    modified: str = ""


def link(href: str, text: str, attributes: str = "") -> str:
    """An anchor. `href` is written as it is, but for the quoting that HTML needs."""
    return f'<a href="{escape(href)}"{" " if attributes else ""}{attributes}>{escape(text)}</a>'


def link_list(links: Iterable[tuple[str, str]]) -> str:
    """An unordered list of links."""
    return "<ul>" + "".join(f"<li>{link(href, text)}</li>" for href, text in links) + "</ul>"


def document(
    title: str,
    main: str,
    *,
    url: str = "",
    description: str = "",
    article: Article | None = None,
    head: str = "",
    crumbs: Sequence[tuple[str, str]] = (),
    language: str = "en",
) -> str:
    """A whole page: head with metadata, navigation, breadcrumbs, content, footer.

    Args:
        title: of the page, as text.
        main: content, as HTML.
        url: absolute URL for rel=canonical and OpenGraph; empty: neither.
        description: meta description; empty: none.
        article: adds metadata and JSON-LD of an article.
        head: more HTML for the head.
        crumbs: breadcrumbs as (href, text), from the top.
        language: of the html element.
    """
    meta = [f"<title>{escape(title)}</title>", f"<style>{_CSS}</style>"]
    if description:
        meta.append(f'<meta name="description" content="{escape(description)}">')
    if url:
        meta.append(f'<link rel="canonical" href="{escape(url)}">')
        meta.append(f'<meta property="og:url" content="{escape(url)}">')
        meta.append(f'<meta property="og:title" content="{escape(title)}">')
    if article:
        meta.append(_article_meta(title, article, description))
    meta.append(head)
    trail = " / ".join(link(href, text) for href, text in crumbs)
    navigation = "".join(link(href, text) for href, text in _NAVIGATION)
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n'
        + "\n".join(part for part in meta if part)
        + f"\n</head>\n<body>\n<header><nav>{navigation}</nav><p>{trail}</p></header>\n"
        f"<main>\n<h1>{escape(title)}</h1>\n{main}\n</main>\n"
        f"<footer><p>{STATION}. {link('/about/contact.html', 'Contact')}, "
        f"{link('/feed.xml', 'News feed')}, {link('mailto:desk@harrow.example', 'Mail')}."
        "</p></footer>\n</body>\n</html>\n"
    )


def prose(texts: Iterable[str]) -> str:
    """Paragraphs of plain text."""
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def _article_meta(title: str, article: Article, description: str) -> str:
    data = {
        "@context": "https://schema.org",
        "@type": "Article",
        "headline": title,
        "description": description,
        "datePublished": article.published,
        "author": {"@type": "Person", "name": article.author},
        "publisher": {"@type": "Organization", "name": STATION},
    }
    if article.modified:
        data["dateModified"] = article.modified
    return (
        f'<meta name="author" content="{escape(article.author)}">\n'
        f'<meta property="article:published_time" content="{article.published}">\n'
        '<script type="application/ld+json">'
        + json.dumps(data, ensure_ascii=False).replace("</", "<\\/")
        + "</script>"
    )
