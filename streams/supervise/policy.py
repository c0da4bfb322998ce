"""When a worker that ended is started again. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from streams.process.exits import EXIT_BUG, EXIT_CONFIG, EXIT_RETRY


class RestartPolicy(NamedTuple):
    """Back-off between restarts of one worker, and when to stop trying.

    The first restart comes after `base_s`, each further one after twice the time, `cap_s` at
    most. A worker that ran `healthy_s` starts the count anew; `attempts` ends in a row without
    such a run are given up.
    """

    base_s: float = 0.5
    cap_s: float = 30.0
    healthy_s: float = 60.0
    attempts: int = 10


DEFAULT: Final = RestartPolicy()


class History(NamedTuple):
    """What is remembered of a worker's earlier ends: how many in a row without a healthy run."""

    failures: int = 0


class Restart(NamedTuple):
    """Start it again after this time."""

    after_s: float


class GiveUp(NamedTuple):
    """Leave it ended, and say why."""

    reason: str


def on_end(
    history: History, exit_code: int, uptime_s: float, jitter: float, policy: RestartPolicy
) -> tuple[History, Restart | GiveUp]:
    """What to do about a worker that ended although nobody asked it to.

    Args:
        history: of this worker.
        exit_code: as `subprocess` has it: negative for the signal that killed it.
        uptime_s: how long it ran.
        jitter: 0 to 1, so that workers killed together do not all come back at once; adds up to
            a quarter of the delay.
        policy: the numbers.
    """
    if exit_code == EXIT_CONFIG:
        return history, GiveUp("its settings or the topics are wrong (exit code 2)")
    failures = 1 if uptime_s >= policy.healthy_s else history.failures + 1
    if failures > policy.attempts:
        return History(failures), GiveUp(
            f"it ended {failures} times in a row within {policy.healthy_s:g} s"
        )
    delay_s = min(policy.cap_s, policy.base_s * 2 ** (failures - 1))
    return History(failures), Restart(delay_s * (1 + jitter / 4))


def describe_end(exit_code: int) -> str:
    """An exit code in words, e.g. "killed by SIGKILL" or "exit code 75 (Kafka did not answer)"."""
    if exit_code < 0:
        import signal

        try:
            return f"killed by {signal.Signals(-exit_code).name}"
        except ValueError:
            return f"killed by signal {-exit_code}"
    meaning = {
        0: "stopped",
        EXIT_CONFIG: "settings or topics are wrong",
        EXIT_BUG: "a bug",
        EXIT_RETRY: "Kafka did not answer in time",
    }.get(exit_code)
    return f"exit code {exit_code}" + (f" ({meaning})" if meaning else "")
