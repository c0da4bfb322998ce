"""How fast one host may be asked: the delay, its jitter, and backing off when the host says so.

`Pace` is the frozen state of one host; each event gives a new one. All instants are of one
monotonic clock, in seconds; `jitter` is a random number in [0, 1) that the caller draws.
"""

from __future__ import annotations

from typing import Final, NamedTuple

JITTER: Final = 0.05
"""Share of a delay that jitter may add; it never takes any away."""
MAX_ADAPTIVE_S: Final = 30.0
BACKOFF_S: Final = 30.0
"""Pause after a first 429 or 503 without a Retry-After; it doubles with each further one."""
MAX_BACKOFF_S: Final = 3_600.0
LEAST_PENALTY_S: Final = 0.25
"""What a first push-back adds to the delay of a host that had none."""
MAX_PENALTY_S: Final = 300.0
_GONE_S = 0.02
_MAX_DOUBLINGS = 12


class Pace(NamedTuple):
    """When a host may be asked again, and how it answered lately.

    `next_at`: earliest next request. `gap_s`: the jittered delay of the request last started.
    `rest_s`: adaptive rest after the last fetch. `penalty_s`: what push-back added to the delay;
    it halves with each success. `strikes`: 429 and 503 answers in a row. `blocked_until`: end of
    the pause that the host asked for; 0: none.
    """

    next_at: float = 0.0
    gap_s: float = 0.0
    rest_s: float = 0.0
    penalty_s: float = 0.0
    strikes: int = 0
    blocked_until: float = 0.0


FRESH: Final = Pace()


def base_delay(setting_s: float, crawl_delay_s: float | None, cap_s: float) -> float:
    """The delay before adaptation: the setting, or a longer Crawl-delay up to a cap.

    A Crawl-delay never shortens the setting, and a setting above the cap stays.
    """
    if crawl_delay_s is None:
        return setting_s
    return max(setting_s, min(crawl_delay_s, cap_s))


def first_seen(assigned_at: float, delay_s: float) -> Pace:
    """The pace of a host that the former owner of its partition may just have asked."""
    return Pace(next_at=assigned_at + delay_s)


def reassigned(pace: Pace, assigned_at: float, delay_s: float) -> Pace:
    """The pace after its partition was assigned anew: another process may have been in between."""
    return pace._replace(next_at=max(pace.next_at, assigned_at + delay_s))


def started(pace: Pace, delay_s: float, now: float, jitter: float) -> Pace:
    """The pace once a request was begun: the next one is at least the whole delay later."""
    gap_s = (delay_s + pace.penalty_s) * (1.0 + JITTER * jitter)
    return pace._replace(next_at=now + gap_s, gap_s=gap_s)


def finished(
    pace: Pace,
    *,
    sent_at: float,
    now: float,
    adaptive_factor: float,
    parallel: int,
    adapt: bool,
) -> Pace:
    """The pace once a fetch is over, whatever came of it.

    Two clocks run: the delay since the request was sent, and a rest since the end that lasts as
    long as the fetch did, times a factor.

    Args:
        sent_at: when the connection was there and the request went out.
        now: when the fetch ended.
        adaptive_factor: rest per second of fetching; 0: no rest.
        parallel: requests that this host may have in flight; they share one rest.
        adapt: False for a crawl with no delay, which also means no rest.
    """
    rest_s = 0.0
    if adapt and adaptive_factor > 0:
        rest_s = min((now - sent_at) * adaptive_factor / parallel, MAX_ADAPTIVE_S)
    next_at = max(pace.next_at, sent_at + pace.gap_s, now + rest_s)
    return pace._replace(next_at=next_at, rest_s=rest_s)


def welcomed(pace: Pace) -> Pace:
    """The pace after an answer that was no push-back: the penalty halves until it is gone."""
    if not pace.strikes and not pace.penalty_s:
        return pace
    penalty_s = pace.penalty_s / 2
    return pace._replace(penalty_s=penalty_s if penalty_s >= _GONE_S else 0.0, strikes=0)


def pushed_back(
    pace: Pace,
    *,
    delay_s: float,
    retry_after_s: float | None,
    now: float,
    jitter: float,
    scale: float = 1.0,
) -> Pace:
    """The pace after 429 or 503: a pause, and from then on a longer delay.

    The pause is what the host asked for, or a back-off that doubles with each push-back in a row.

    Args:
        delay_s: base delay of the host.
        retry_after_s: see `fetchers.policy.retry_after.wait_s`; None: not said.
        now: when the answer came.
        jitter: in [0, 1); spreads the end of the pause.
        scale: of back-off and penalty, as the retry tiers are scaled.
    """
    doubled = BACKOFF_S * 2.0 ** min(pace.strikes, _MAX_DOUBLINGS)
    backoff_s = min(doubled, MAX_BACKOFF_S) * scale
    pause_s = backoff_s if retry_after_s is None else retry_after_s
    pause_s = max(pause_s, delay_s) * (1.0 + JITTER * jitter)
    least_s = max(delay_s, LEAST_PENALTY_S * scale)
    penalty_s = min(max(pace.penalty_s * 2, least_s), MAX_PENALTY_S * scale)
    until = now + pause_s
    return pace._replace(
        next_at=max(pace.next_at, until),
        penalty_s=penalty_s,
        strikes=pace.strikes + 1,
        blocked_until=max(pace.blocked_until, until),
    )
