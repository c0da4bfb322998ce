"""A worker with a toy stage, for tests of the runtime: `python -m tests.integration.toy_worker`.

Messages are JSON: `id`, and what to do with it: `ms` (duration of the work), `kill` (end the
process at once), `hold` (wait until a file of the flag folder exists). The stage appends a line to
a log for what happens, and produces one message on `records` for each completed one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from schemas.topics import FETCH_REQUESTS, FETCHER_GROUP, RECORDS
from streams.delivery.stage import Context, Delivery
from streams.delivery.worker import run_worker
from streams.kafka.messages import Out, Source
from streams.settings import load
from streams.telemetry.outage_filter import OUTAGE


class Toy:
    name = "fetcher"
    group = FETCHER_GROUP
    topics = (FETCH_REQUESTS,)

    def __init__(self, folder: Path, tag: str, room: int, drain_to_end: bool = True) -> None:
        self._folder = folder
        self._tag = tag
        self._room = room
        self._drain_to_end = drain_to_end
        self._log = (folder / "log.jsonl").open("a", buffering=1, encoding="utf-8")
        self._tasks: dict[Delivery, asyncio.Task[None]] = {}
        self._begun: set[Delivery] = set()
        self._context: Context | None = None

    def say(self, what: str, **more: Any) -> None:
        row = {"what": what, "tag": self._tag, "pid": os.getpid(), "at": time.time(), **more}
        self._log.write(json.dumps(row) + "\n")

    async def start(self, context: Context) -> None:
        self._context = context
        self.say("started")

    def room(self, source: Source) -> int:
        if (self._folder / "full").exists():
            return 0
        return self._room - sum(delivery.source == source for delivery in self._tasks)

    def offer(self, delivery: Delivery) -> None:
        task = asyncio.get_running_loop().create_task(self._work(delivery))
        self._tasks[delivery] = task
        task.add_done_callback(lambda _: self._tasks.pop(delivery, None))

    def assigned(self, sources: frozenset[Source]) -> None:
        self.say("assigned", partitions=sorted(source.partition for source in sources))

    async def revoke(self, sources: frozenset[Source]) -> None:
        left = []
        for delivery, task in tuple(self._tasks.items()):
            if delivery in self._begun:
                left.append(task)
            else:
                task.cancel()
        self.say("revoke", unfinished=len(left))
        if left:
            await asyncio.wait(left)
        self.say("revoked")

    async def stop(self) -> None:
        for task in tuple(self._tasks.values()):
            task.cancel()
        self.say("stopped")

    async def _work(self, delivery: Delivery) -> None:
        assert self._context is not None
        job: dict[str, Any] = json.loads(delivery.value or b"{}")
        where = {"id": job["id"], "partition": delivery.source.partition, "offset": delivery.offset}
        self.say("offered", **where)
        if not await delivery.begin():
            self.say("refused", **where)
            return
        self._begun.add(delivery)
        try:
            self.say("begun", **where)
            if job.get("kill"):
                os._exit(9)
            if "hold" in job:
                while not (self._folder / job["hold"]).exists():  # noqa: ASYNC110 - it is a file
                    await asyncio.sleep(0.02)
            await asyncio.sleep(job.get("ms", 0) / 1000)
            value = json.dumps({"id": job["id"], "tag": self._tag}).encode()
            await self._context.outputs.deliver([Out(RECORDS, delivery.key, value)])
            kept = delivery.complete({"default": {"pages": 1}})
            self.say("completed" if kept else "stale", **where)
        finally:
            self._begun.discard(delivery)


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = json.loads(sys.argv[1])
    OUTAGE.rules = OUTAGE.rules._replace(every_s=options["outage_every_s"])
    stage = Toy(Path(options["folder"]), options["tag"], options["room"])
    with contextlib.suppress(KeyboardInterrupt):
        return run_worker(stage, load(dict(os.environ)))
    return 130


if __name__ == "__main__":
    sys.exit(main())
