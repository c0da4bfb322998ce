"""Log lines of all roles: one form, to standard error, without secrets.

`structlog` for ours, the standard library's loggers of others routed into the same formatter. The
masking is done on the finished line, so that no field, exception text or foreign message can slip
past it.
"""

from __future__ import annotations

import json
import logging
import logging.config
import re
import sys
from collections.abc import Sequence
from typing import Any, Final

import structlog

from streams.settings import Settings
from streams.telemetry.outage_filter import OUTAGE
from streams.telemetry.plain import plain

MASK: Final = "***"

_USERINFO: Final = re.compile(r"(?<=://)[^/\s\"'@?#]+(?=@)")
_CREDENTIAL: Final = re.compile(
    r"""(?xi)
    (?<=[?&;])
    (
        (?: key | sig | sid | code | auth | pwd | pass )              # the whole name
        | [\w.%-]* (?:                                                # a part of the name
            token | secret | passw | signature | credential | api[_-]?key | access[_-]?key
            | session[_-]?id | jwt
          ) [\w.%-]*
    )
    = [^&;\s"'<>\\#]+
    """
)

# Libraries that tell at INFO what is our news, or what nobody can act on.
_QUIET: Final = {
    "aiokafka": logging.WARNING,
    "aiohttp": logging.WARNING,
    "asyncio": logging.WARNING,
    "courlan": logging.CRITICAL,
    "faust": logging.INFO,
    "htmldate": logging.CRITICAL,
    "httpx": logging.WARNING,
    "mode": logging.WARNING,
    "trafilatura": logging.CRITICAL,
}


def mask(text: str, secrets: Sequence[str] = ()) -> str:
    """Text without the given secrets, user information of URLs, and credentials in queries.

    Example:
        >>> mask("GET https://u:p@a.example/?q=1&access_token=abc")
        'GET https://***@a.example/?q=1&access_token=***'
    """
    for secret in secrets:
        text = text.replace(secret, MASK)
    text = _USERINFO.sub(MASK, text)
    return _CREDENTIAL.sub(rf"\1={MASK}", text)


def secrets_of(settings: Settings) -> tuple[str, ...]:
    """Values that no log line may show, also as JSON would write them; longest first."""
    values = {settings.sasl_password} - {None, ""}
    spelled = {form for value in values for form in (str(value), json.dumps(value)[1:-1])}
    return tuple(sorted(spelled, key=lambda value: (-len(value), value)))


_TRACES: Final = frozenset({"exception", "stack"})
"""Fields of several lines, which are ours."""


class _Formatter(structlog.stdlib.ProcessorFormatter):
    """Renders a line and masks it."""

    def __init__(self, *, json_lines: bool, secrets: Sequence[str], role: str) -> None:
        renderer: Any
        if json_lines:
            renderer = structlog.processors.JSONRenderer(default=str)
            tail = [structlog.processors.format_exc_info, renderer]
        else:
            colors = sys.stderr.isatty()
            renderer = structlog.dev.ConsoleRenderer(
                colors=colors,
                exception_formatter=structlog.dev.plain_traceback,
                pad_event_to=0,
            )
            tail = [_plain, renderer]
        super().__init__(
            foreign_pre_chain=_pre_chain(),
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _role(role),
                *tail,
            ],
        )
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """The line, masked."""
        return mask(super().format(record), self._secrets)


def _plain(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    shown = {
        name: plain(value) if isinstance(value, str) and name not in _TRACES else value
        for name, value in event.items()
    }
    # What is wrong with a deployment is told in several lines.
    shown["event"] = "\n".join(map(plain, str(event["event"]).split("\n")))
    return shown


def _role(role: str) -> Any:
    def add(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
        event.setdefault("role", role)
        return event

    return add


def _pre_chain() -> list[Any]:
    """What ours and others' lines have in common: context, level, logger, time (UTC)."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
    ]


def dict_config(settings: Settings, role: str) -> dict[str, Any]:
    """Configuration for `logging.config.dictConfig`.

    Faust sets up logging itself once its worker starts: give it this as `logging_config`.
    """
    level = logging.getLevelName(settings.log_level.upper())
    debug = level <= logging.DEBUG
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": _Formatter,
                "json_lines": settings.log_format == "json",
                "secrets": secrets_of(settings),
                "role": role,
            }
        },
        "filters": {"outage": {"()": lambda: OUTAGE}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "filters": ["outage"],
                "stream": "ext://sys.stderr",
            }
        },
        "root": {"level": level, "handlers": ["stderr"]},
        "loggers": {
            name: {"level": max(level, logging.INFO if debug else least)}
            for name, least in _QUIET.items()
        },
    }


def configure(settings: Settings, role: str) -> None:
    """Set up logging of this process.

    Args:
        settings: form, least level, and the secrets to mask.
        role: fetcher, parser, dedup, supervisor or cli; on every line.
    """
    logging.config.dictConfig(dict_config(settings, role))
    structlog.configure(
        processors=[
            *_pre_chain(),
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.processors.StackInfoRenderer(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        # Lines below the level cost a call and nothing more.
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelName(settings.log_level.upper())
        ),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
