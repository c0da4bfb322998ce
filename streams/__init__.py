"""All that is Kafka: clients, the consumer runtime, dedup, topics, the embedded broker, commands.

`faust -A streams worker` looks for `streams.app`; it is made on first access, so that importing
`streams` costs nothing and reads no settings.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """`app`: the Faust application of the dedup stage."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from streams.dedup import load

    app = globals()["app"] = load()
    return app
