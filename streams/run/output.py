"""The JSON lines of one crawl, in a file that several runs continue."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

import orjson

from schemas.errors import ConfigError
from streams.run.lines import brief, line
from streams.run.seen import Seen, visit_id

_BUFFER_BYTES: Final = 256 * 1024


class RecordFile:
    """The JSON lines of one crawl, each visit once, also over several runs into one file.

    A file that exists is continued: the visits in it are not written again. A half line at its end
    (the process was killed) is cut off; its record is read again from the topic.

    Args:
        path: file to write; None: `stream`.
        stream: where to write without a path; None: nowhere, records are only counted.
        fresh: replace the file instead of continuing it.
        show: gets one short line for each record, instead of a file or stream.
    """

    def __init__(
        self,
        path: Path | None,
        stream: IO[str] | None = None,
        *,
        fresh: bool = False,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self._seen = Seen()
        self.written = 0
        """Records written by this object; those found in the file are not among them."""
        self._show = show
        self._stream = stream
        self._file: IO[bytes] | None = None
        if path is not None:
            if not fresh:
                self._continue(path)
            self._file = path.open("wb" if fresh else "ab", buffering=_BUFFER_BYTES)

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, record: Mapping[str, Any]) -> bool:
        """Write a record unless that of its visit is there. True when it was written."""
        if not self._seen.first(visit_id(record["url_id"], record.get("redirects", ()))):
            return False
        if self._file is not None:
            self._file.write(line(record))
        elif self._stream is not None:
            self._stream.write(line(record).decode())
        if self._show is not None:
            self._show(brief(record))
        self.written += 1
        return True

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        if self._file is not None:
            self._file.flush()
        elif self._stream is not None:
            self._stream.flush()

    def close(self) -> None:
        """Flush, and close a file of our own."""
        self.flush()
        if self._file is not None:
            self._file.close()
        self._seen.close()

    def _continue(self, path: Path) -> None:
        try:
            data = path.open("rb+")
        except FileNotFoundError:
            return
        with data:
            kept = 0
            for number, row in enumerate(data, 1):
                if not row.endswith(b"\n"):
                    break
                try:
                    known = _parsed(row)
                    identity = bytes.fromhex(known["url_id"])
                    self._seen.first(visit_id(identity, known.get("redirects", ())))
                except (ValueError, KeyError, TypeError) as error:
                    raise ConfigError(
                        f"{path}, line {number} is no record: choose another --output"
                    ) from error
                kept += len(row)
            data.truncate(kept)


def _parsed(row: bytes) -> Any:
    try:
        return orjson.loads(row)
    except ValueError:  # numbers and text that only the standard library takes
        return json.loads(row)
