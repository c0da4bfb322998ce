"""`crawl parse` and `crawl shell`: look at one page as the parser sees it. No Kafka is needed."""

from __future__ import annotations

import code
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from parsers.session import Page
    from schemas.crawl import CrawlSpec

_SpecFile = Annotated[
    Path | None, typer.Option("--spec", help="Crawl spec (YAML or JSON): its rules and selectors.")
]
_PageUrl = Annotated[str, typer.Option("--url", help="URL of a page that comes from a file.")]

BANNER = """\
page      {page!r}
record    the record as a dictionary; record["extracted"] holds the spec's values
links     URLs that the page would add to the crawl ({links})
css(s)    elements that match a CSS selector, each with .text .attrs .html .css(s)
fetch(u)  fetch another page: page, record, links and css are about that one then
view()    open the page in a web browser
Ctrl-D ends."""


def parse(
    target: Annotated[str, typer.Argument(help="URL, file, or - for standard input.")],
    *,
    spec: _SpecFile = None,
    url: _PageUrl = "",
    only: Annotated[
        str, typer.Option("--only", help="Comma-separated fields of the record to print.")
    ] = "",
    show_links: Annotated[
        bool, typer.Option("--links", help="Print the URLs for the crawl, one a line.")
    ] = False,
) -> None:
    """Show what a page's record and links would be.

    Prints one JSON object: the record, the links that would be sent, and what was counted.

    Try: crawl parse page.html --spec shop.yaml --only title,extracted
    """
    from parsers.records.parse import Failure
    from parsers.session import load

    rules, agent = _rules(spec)
    page = load(target, rules, url=url, agent=agent)
    if show_links:
        for link in page.links:
            typer.echo(link)
        return
    record = page.record
    if only and not isinstance(page.outcome, Failure):
        names = [name.strip() for name in only.split(",") if name.strip()]
        unknown = sorted(set(names) - record.keys())
        if unknown:
            raise typer.BadParameter(f"a record has no {', '.join(unknown)}", param_hint="--only")
        _print({name: record[name] for name in names})
    else:
        _print({"record": record, "links": page.sent, "counts": page.counts})
    if isinstance(page.outcome, Failure):
        raise typer.Exit(1)


def shell(
    target: Annotated[str, typer.Argument(help="URL, file, or - for standard input.")],
    *,
    spec: _SpecFile = None,
    url: _PageUrl = "",
    command: Annotated[
        str | None, typer.Option("-c", help="Evaluate one expression, print it, and end.")
    ] = None,
) -> None:
    """Try selectors on a page in a Python console.

    Try: crawl shell https://a.example/ -c "css('h1')[0].text"
    """
    from parsers.session import load

    rules, agent = _rules(spec)
    names = console_names(load(target, rules, url=url, agent=agent), rules, agent)
    if command is not None:
        _evaluate(command, names)
        return
    with contextlib.suppress(ImportError):
        import readline
        import rlcompleter

        readline.set_completer(rlcompleter.Completer(names).complete)
        readline.parse_and_bind("tab: complete")
    banner = BANNER.format(page=names["page"], links=len(names["links"]))
    code.interact(banner=banner, local=names, exitmsg="")


def console_names(page: Page, rules: CrawlSpec, agent: str) -> dict[str, Any]:
    """What the console knows; `fetch` replaces the page in it."""
    from parsers.session import load

    names: dict[str, Any] = {}

    def use(found: Page) -> Page:
        names.update(
            page=found,
            record=found.record,
            links=found.links,
            css=found.css,
            view=found.view,
            fetch=fetch,
        )
        return found

    def fetch(target: str) -> Page:
        """Fetch a URL (or read a file) and make it the page."""
        return use(load(target, rules, agent=agent))

    use(page)
    return names


def _evaluate(command: str, names: dict[str, Any]) -> None:
    """One expression, printed like a console does, but text as it is."""
    try:
        compiled = compile(command, "<-c>", "eval")
    except SyntaxError:
        exec(compile(command, "<-c>", "exec"), names)  # noqa: S102 - the user's own code
        return
    value = eval(compiled, names)  # noqa: S307 - the user's own code
    if value is not None:
        typer.echo(value if isinstance(value, str) else repr(value))


def _rules(spec: Path | None) -> tuple[CrawlSpec, str]:
    """The spec to look at pages under, and our product token."""
    from streams.crawls.plan import build_spec, read_spec_file
    from streams.settings import load as load_settings

    layers = [] if spec is None else [read_spec_file(spec)]
    crawl = layers[0].get("crawl", "parse") if layers else "parse"
    return build_spec(str(crawl), layers), load_settings().agent or ""


def _print(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print_json(text, ensure_ascii=False)
    else:
        typer.echo(text)
