"""The dedup stage: each URL of a crawl once, admitted by the crawl's rules.

How a URL comes through:

1. It arrives on `urls` in a batch of one page and host, or as a plain seed (`seeds`).
2. The batch is judged (`policy`): links of hosts that another partition owns are produced to
   `urls` again under the host's key; the others are looked up in the table `seen`; the new ones
   are asked about scope, depth, budgets, traps.
3. What is new becomes a fetch request (`requests`), delivered in bulk, in order, before the table
   and the offset move (`lane`).
4. The table is RocksDB under Faust's table (`store`), restored from its changelog whenever
   partitions move (`recovery`).

Faust is the frame: the application, the agent, the group membership with sticky assignment, the
table. What does not hold in it is replaced underneath (`faust_patch`, `recovery`, `lane`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streams.dedup.app import DedupApp


def load() -> DedupApp:
    """The application for the settings of this process's environment.

    A wrong setting, or no Kafka, ends the process with code 2 and says what to do.
    """
    from schemas.errors import ConfigError
    from streams.dedup.app import build
    from streams.dedup.faust_patch import quiet
    from streams.process.collector import relax
    from streams.process.die import die
    from streams.process.exits import EXIT_CONFIG
    from streams.process.loops import use_uvloop
    from streams.settings import load as load_settings
    from streams.telemetry.logs import configure

    try:
        settings = load_settings()
        configure(settings, "dedup")
        quiet()
        use_uvloop()
        app = build(settings)
    except ConfigError as error:
        die(str(error), EXIT_CONFIG)
    relax()
    return app
