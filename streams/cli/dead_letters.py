"""`crawl dead-letters`: look at what was given up, and send it again."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streams.cli._shared import PANEL_OPERATE, load_settings, note, out

if TYPE_CHECKING:
    from streams.deadletters.redrive import Filter, Letter, Plan, Shelf
    from streams.kafka.messages import Out
    from streams.settings import Settings

ORDER: Final = 50
_CHUNK: Final = 500
_SHOWN_PAYLOAD_BYTES: Final = 2_000

Reasons = Annotated[
    list[str] | None, typer.Option("--reason", metavar="R", help="Only this reason; repeatable.")
]
Host = Annotated[str | None, typer.Option(metavar="H", help="Only URLs of this host.")]
Crawl = Annotated[str | None, typer.Option(metavar="ID", help="Only this crawl.")]
Since = Annotated[
    str | None, typer.Option(metavar="T", help="Given up since 2h, 7d ago or 2026-11-30T09:00.")
]

_app = typer.Typer(
    no_args_is_help=True,
    help="What was given up: failed URLs, URLs that a rule refused, unreadable messages.",
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(_app, name="dead-letters", rich_help_panel=PANEL_OPERATE)


@_app.command("list")
def list_(
    *,
    reason: Reasons = None,
    host: Host = None,
    crawl: Crawl = None,
    since: Since = None,
    limit: Annotated[int, typer.Option("--max", min=1, help="Show the newest so many.")] = 50,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines, all of them, without payloads.")
    ] = False,
) -> None:
    """List dead letters with their reasons, newest last, and a count by reason.

    Try: crawl dead-letters list --reason http_503 --since 1d
    """
    wanted = _filter(reason, host, crawl, since)
    shelf = asyncio.run(_read(load_settings()))
    letters = shelf.chosen(wanted)
    if as_json:
        for letter in letters:
            print(json.dumps(_json(letter, shelf, payload=False), ensure_ascii=False))
        return
    _print_list(letters[-limit:], shelf, total=letters)
    if shelf.unreadable:
        note(f"{shelf.unreadable} messages are no dead letters")


@_app.command()
def show(
    position: Annotated[
        str, typer.Argument(metavar="PARTITION/OFFSET", help="As `list` prints it, or a URL.")
    ],
) -> None:
    """Show one dead letter whole, with its message, as JSON.

    Try: crawl dead-letters show 3/17
    """
    from schemas.errors import ConfigError

    shelf = asyncio.run(_read(load_settings()))
    found = [item for item in shelf.letters if position in (item.position, item.row["url"])]
    if not found:
        raise ConfigError(f"no dead letter {position}: see `crawl dead-letters list`")
    for letter in found:
        text = json.dumps(_json(letter, shelf, payload=True), ensure_ascii=False, indent=2)
        print(text)


@_app.command()
def redrive(
    *,
    reason: Reasons = None,
    host: Host = None,
    crawl: Crawl = None,
    since: Since = None,
    limit: Annotated[
        int | None, typer.Option("--max", min=1, help="Send at most so many, oldest first.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be sent.")
    ] = False,
) -> None:
    """Send dead letters to where they came from, for one more attempt.

    Each is sent once: a letter that was redriven is marked. The history of attempts is kept, and a
    message is redriven three times at most. What a rule refused (robots_denied and the like) is
    sent only when its --reason is named.

    Try:

        crawl dead-letters redrive --reason http_503 --since 1d --dry-run
    """
    from streams.deadletters.redrive import plan

    wanted = _filter(reason, host, crawl, since)
    settings = load_settings()
    shelf = asyncio.run(_read(settings))
    found = plan(shelf, wanted, limit=limit)
    _print_plan(found, dry_run=dry_run)
    if not dry_run and found.replays:
        asyncio.run(_send(settings, found))
        note(f"{len(found.replays)} messages were sent")


def _filter(
    reasons: list[str] | None, host: str | None, crawl: str | None, since: str | None
) -> Filter:
    """Raises ConfigError naming every problem."""
    from schemas.errors import ConfigError
    from schemas.reasons import Reason
    from streams.cli._when import since_ms
    from streams.deadletters.redrive import Filter

    unknown = sorted(set(reasons or ()) - {known.value for known in Reason})
    if unknown:
        raise ConfigError(
            f"no such reason: {', '.join(unknown)}; there are {', '.join(sorted(Reason))}"
        )
    return Filter(
        reasons=frozenset(reasons or ()),
        host=host or "",
        crawl=crawl or "",
        since_ms=since_ms(since) if since else None,
    )


async def _read(settings: Settings) -> Shelf:
    """All dead letters up to the present end."""
    from schemas.topics import DEAD_LETTERS
    from streams.deadletters.redrive import Shelf
    from streams.kafka.reader import TopicReader

    shelf = Shelf()
    async with TopicReader(settings, DEAD_LETTERS) as reader:
        ends = await reader.ends()
        async for message in reader.bounded(await reader.starts(), ends):
            shelf.add(message)
    return shelf


async def _send(settings: Settings, found: Plan) -> None:
    """Replays first, marks after their delivery: a crash in between sends again, never drops."""
    from streams.crawls.submit import Submitter
    from streams.deadletters.redrive import mark

    async with Submitter(settings) as submitter:
        for at in range(0, len(found.replays), _CHUNK):
            chunk = found.replays[at : at + _CHUNK]
            await submitter.deliver([out_ for _, out_ in chunk])
            marks: dict[int, list[Out]] = {}
            for letter, _ in chunk:
                marks.setdefault(letter.source.partition, []).append(mark(letter))
            for partition, messages in marks.items():
                await submitter.deliver(messages, partition)


def _print_list(letters: list[Letter], shelf: Shelf, *, total: list[Letter]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from streams.deadletters.redrive import by_reason
    from streams.telemetry.plain import plain

    table = Table("position", "when (UTC)", "reason", "tries", "crawl", "URL", "detail")
    for letter in letters:
        row = letter.row
        done = " (redriven)" if letter.position in shelf.redriven else ""
        table.add_row(
            letter.position,
            _time(row["dead_at"]),
            row["reason"] + done,
            str(row["attempts"]),
            escape(plain(row["crawl"])),
            escape(plain(row["url"] or row["payload"][:80].decode("utf-8", "replace"))),
            escape(plain(row["detail"][:80])),
        )
    console = out()
    if letters:
        console.print(table)
    console.print(f"{len(total):,} dead letters", highlight=False)
    for reason, count in by_reason(total).items():
        console.print(f"  {reason:<22} {count:>9,}", highlight=False)


def _print_plan(found: Plan, *, dry_run: bool) -> None:
    console = out()
    verb = "would be sent" if dry_run else "to send"
    console.print(f"{len(found.replays):,} messages {verb}", highlight=False)
    for reason, count in found.histogram().items():
        console.print(f"  {reason:<22} {count:>9,}", highlight=False)
    for why, count in found.skipped.most_common():
        console.print(f"left out, {why}: {count:,}", highlight=False, markup=False)


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _json(letter: Letter, shelf: Shelf, *, payload: bool) -> dict[str, Any]:
    """A letter as JSON; its message decoded when it is one of ours."""
    from schemas import codec
    from schemas.errors import ContractError
    from streams.run.lines import to_json

    row: dict[str, Any] = {name: value for name, value in letter.row.items() if name != "payload"}
    key = row["origin_key"]
    row["origin_key"] = None if key is None else key.decode("utf-8", "backslashreplace")
    found = {
        "position": letter.position,
        "redriven": letter.position in shelf.redriven,
        **to_json(row),
    }
    if payload:
        data = letter.row["payload"]
        name = codec.schema_of(data)
        try:
            message = codec.decode(name, data) if name else None
        except ContractError:
            message = None
        if message is None:
            found["payload"] = data[:_SHOWN_PAYLOAD_BYTES].decode("utf-8", "backslashreplace")
        else:
            found["message"] = to_json({k: v for k, v in message.items() if k != "body"})
    return found
