"""Exceptions for faults of our own side; expected web failures are values (`schemas.reasons`).

CrawlError
|-- ConfigError          exit 2; never retried
|-- ContractError        the message goes to `dead-letters`, then its offset completes
|   |-- DecodeError
|   `-- UnknownSchemaError
|-- TransientInfraError  nothing is committed; the process exits after its budget
|-- StaleAssignmentError the work is dropped: another process owns the partition now
`-- InvariantError       a bug; the process stops
"""

from __future__ import annotations


class CrawlError(Exception):
    """Base of all exceptions raised on purpose by this project."""


class ConfigError(CrawlError):
    """A setting, a crawl spec or a topic is wrong.

    Operator action: read the message, which names every problem found, and correct them; the
    process exits with code 2 and restarting it changes nothing.
    """


class ContractError(CrawlError):
    """A message does not follow the contract: dead-letter it, then complete its offset."""


class DecodeError(ContractError):
    """Bytes that are neither a known schema's encoding nor an accepted plain form."""


class UnknownSchemaError(ContractError):
    """Single-object encoding with a fingerprint that no schema shipped here has.

    Operator action: a newer producer is running than this consumer; deploy readers first, then
    `crawl dead-letters redrive --reason unknown_schema`.
    """


class TransientInfraError(CrawlError):
    """Kafka or the blob store did not answer in time. Nothing was committed.

    Operator action: look at the broker; the process ends itself and resumes where it was when
    started again.
    """


class StaleAssignmentError(CrawlError):
    """The partition was reassigned while work on it was under way; the new owner redoes it."""


class InvariantError(CrawlError):
    """An assumption of the code does not hold. The process stops rather than guess."""
