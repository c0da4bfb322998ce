"""`crawl records`: what the pipeline made, as JSON lines."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from streams.cli._shared import PANEL_CRAWL, load_settings, note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.kafka.reader import Message
    from streams.run.seen import Recent
    from streams.settings import Settings

ORDER: Final = 30
_REMEMBERED: Final = 1_000_000
"""Fetch ids remembered, to print a record once that was delivered twice."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=PANEL_CRAWL)(records)


def records(
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as records come; Ctrl-C ends.")
    ] = False,
    crawl: Annotated[
        str | None, typer.Option(metavar="ID", help="Only records of this crawl.")
    ] = None,
    output_format: Annotated[
        Literal["jsonl", "brief"],
        typer.Option("--format", help="JSON lines, or one short line each."),
    ] = "jsonl",
    fields: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these fields, in this order.")
    ] = None,
    from_beginning: Annotated[
        bool | None,
        typer.Option(
            "--from-beginning/--new",
            help="All that the topic keeps (default), or new ones only (default with --follow).",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="T", help="Since 10m, 2h, 3d ago or 2026-11-30T09:00 (local time)."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--max", min=1, help="Stop after so many.")] = None,
) -> None:
    """Print records from the topic `records`, oldest first within each partition.

    Reading disturbs nobody: no consumer group is used. A record that a crash had delivered twice
    is printed once.

    Try:

        crawl records --crawl shop --fields url,title | jq -r .title

        crawl records --follow --format brief
    """
    from schemas.errors import ConfigError
    from schemas.records import Record
    from streams.cli._when import since_ms
    from streams.run.lines import unknown_fields

    settings = load_settings()
    names = [name.strip() for name in fields.split(",") if name.strip()] if fields else []
    if wrong := unknown_fields(names, Record.__annotations__):
        raise ConfigError(f"no such fields: {', '.join(wrong)}")
    beginning = not follow if from_beginning is None else from_beginning
    start = since_ms(since) if since else (0 if beginning else None)
    show = _Show(crawl, names, output_format, limit)
    asyncio.run(_records(settings, show, start=start, follow=follow))
    if show.unreadable:
        note(f"{show.unreadable} messages are no records")


class _Show:
    """Prints the records that are wanted."""

    def __init__(
        self, crawl: str | None, fields: Sequence[str], output_format: str, limit: int | None
    ) -> None:
        from streams.run.seen import Recent

        self._crawl = crawl
        self._fields = fields
        self._brief = output_format == "brief"
        self._left = limit
        self._seen: Recent = Recent(_REMEMBERED)
        self.unreadable = 0

    @property
    def done(self) -> bool:
        """Whether as many as were asked for are printed."""
        return self._left == 0

    def take(self, message: Message) -> None:
        """Print a message's record if it is wanted."""
        from schemas import codec
        from schemas.errors import ContractError
        from streams.run.lines import brief, to_json

        if self.done:
            return
        try:
            record = codec.decode("record", message.value or b"")
        except ContractError:
            self.unreadable += 1
            return
        if self._crawl not in (None, record["crawl"]) or not self._seen.first(record["fetch_id"]):
            return
        if self._left is not None:
            self._left -= 1
        if self._brief:
            sys.stdout.write(brief(record) + "\n")
        else:
            line = json.dumps(to_json(record, self._fields), ensure_ascii=False)
            sys.stdout.write(line + "\n")


async def _records(settings: Settings, show: _Show, *, start: int | None, follow: bool) -> None:
    """Print from a time on (0: everything kept; None: from now on)."""
    from schemas.topics import RECORDS
    from streams.kafka.reader import TopicReader

    async with TopicReader(settings, RECORDS) as reader:
        ends = await reader.ends()
        positions = ends
        if start is not None:
            positions = await (reader.at_time(start) if start else reader.starts())
        if follow:
            async for messages in reader.follow(positions):
                for message in messages:
                    show.take(message)
                sys.stdout.flush()
                if show.done:
                    return
        async for message in reader.bounded(positions, ends):
            show.take(message)
            if show.done:
                return
