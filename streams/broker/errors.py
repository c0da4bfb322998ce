"""What can go wrong with the embedded broker."""

from __future__ import annotations

from schemas.errors import CrawlError


class BrokerError(CrawlError):
    """The embedded broker cannot be started, reached or stopped.

    Operator action: the message says why and ends with the broker's last log lines; or set
    `KAFKA_BOOTSTRAP_SERVERS` to use a Kafka of your own.
    """


class AlreadyRunningError(BrokerError):
    """A live broker owns the data folder: attach to it or stop it first."""
