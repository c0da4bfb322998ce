"""Exit codes of our processes."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_CONFIG: Final = 2
"""A setting or topic is wrong (`schemas.errors.ConfigError`): a restart changes nothing."""
EXIT_BUG: Final = 70
"""EX_SOFTWARE: a fault of ours."""
EXIT_RETRY: Final = 75
"""EX_TEMPFAIL: Kafka did not answer in time. What is committed is done; start again."""
