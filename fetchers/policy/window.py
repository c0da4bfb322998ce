"""The frontier window: requests held in memory, in one queue per host, fetched when due.

Invariants:

* A host with a queued request that may be begun (fewer in flight than allowed, not gated, its
  address below its cap) has exactly one entry in the heap, at or before its due time. So the heap's
  top is always a host that can be fetched from, or says how long nobody can.
* Hosts that are due are served in turn: an entry made later has a later turn. A slow host has its
  entry in the future and costs the others nothing.
* A host's queue holds what it can be asked within a horizon that shrinks as the window fills. The
  excess is deferred, and each deferred request gets a slot of its own: the host's virtual finish
  time moves on by one delay, so that what comes back comes at the rate the host can be asked.

The clock is the caller's: nothing here reads one.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from fetchers.policy import breaker as breakers
from fetchers.policy import politeness
from fetchers.policy.retry import tier_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from fetchers.policy.breaker import Breaker
    from fetchers.policy.politeness import Pace

T = TypeVar("T")

SLOW_S: Final = 0.5
"""A fetch shorter than this does not count as the time that a request takes of its host."""
IDLE_S: Final = 600.0
"""A host without requests is forgotten this long after it could last be asked."""
_SMOOTHING = 0.25


class Deferral(NamedTuple):
    """A request that does not fit: the tier to move it to and the wait until its slot."""

    tier: int
    wait_s: float


class Host(Generic[T]):
    """One host: its queue and all that decides when it is asked."""

    __slots__ = (
        "address", "breaker", "crawl_delay_s", "delay_s", "gated", "in_flight", "key", "pace",
        "parallel", "partition", "queue", "scheduled", "service_s", "setting_s", "virtual_at",
    )  # fmt: skip

    def __init__(self, key: str, partition: int) -> None:
        self.key = key
        self.partition = partition
        self.queue: list[tuple[int, int, T]] = []
        """Heap of (-priority, turn, item)."""
        self.in_flight = 0
        self.pace: Pace = politeness.FRESH
        self.breaker: Breaker = breakers.CLOSED
        self.setting_s = 0.0
        """Longest delay of the crawls that ask this host."""
        self.crawl_delay_s: float | None = None
        """Crawl-delay of its robots.txt."""
        self.delay_s = 0.0
        """Base delay made of both."""
        self.parallel = 1
        self.service_s = 0.0
        """Smoothed duration of its fetches."""
        self.virtual_at = 0.0
        """When all requests known of this host, deferred ones included, would be fetched."""
        self.gated = False
        """True while its robots.txt is fetched: nothing else is begun."""
        self.address = ""
        self.scheduled = False

    @property
    def interval_s(self) -> float:
        """Time between two of its requests as it looks now."""
        slow_s = self.service_s if self.service_s >= SLOW_S else 0.0
        pace_s = self.delay_s + self.pace.penalty_s
        if self.delay_s:
            pace_s = max(pace_s, self.pace.rest_s)
        return max(pace_s, slow_s / self.parallel)

    def free_at(self, now: float) -> float:
        """When the next request of its queue could be begun at the earliest."""
        return max(now, self.pace.next_at, self.breaker.until)

    def took(self, duration_s: float) -> None:
        """Note how long a fetch lasted."""
        if not self.service_s:
            self.service_s = duration_s
        else:
            self.service_s += _SMOOTHING * (duration_s - self.service_s)


class Window(Generic[T]):
    """All hosts of this process. See the module for the invariants."""

    def __init__(self, *, tiers_s: Sequence[float], per_address: int) -> None:
        self.hosts: dict[str, Host[T]] = {}
        self.size = 0
        """Requests queued, those in flight not counted."""
        self._tiers_s = tuple(tiers_s)
        self._per_address = per_address
        self._heap: list[tuple[float, int, Host[T]]] = []
        self._turns = count()
        self._at_address: dict[str, int] = {}
        self._parked: dict[str, dict[str, Host[T]]] = {}

    def host(self, key: str, partition: int) -> Host[T]:
        """The host of a key, made when it is new."""
        found = self.hosts.get(key)
        if found is None:
            found = self.hosts[key] = Host(key, partition)
        return found

    def place(
        self, host: Host[T], *, now: float, fullness: float, returned: bool, priority: int = 0
    ) -> Deferral | None:
        """Decide whether a request fits: None says to `add` it now.

        A host that has nothing queued takes any request that it can begin within the shortest
        tier. Requests of a host without a delay always fit, however many there are.

        Args:
            host: of the request.
            now: monotonic seconds.
            fullness: how full the window of its partition is, 0 to 1.
            returned: True when this request already had a slot, and comes back from a tier.
            priority: above 0, deferred requests are not let go first.
        """
        interval_s = host.interval_s
        free_at = host.free_at(now)
        ready_s = free_at - now
        wait_s = ready_s + len(host.queue) * interval_s
        if not returned and priority <= 0:
            wait_s = max(wait_s, host.virtual_at - now)
        shortest, longest = self._tiers_s[0], self._tiers_s[2]
        horizon_s = min(max(longest * (1.0 - fullness) ** 2, shortest), longest)
        idle = not host.queue and ready_s <= shortest
        if idle or wait_s <= horizon_s:
            if not returned:
                host.virtual_at = max(host.virtual_at, free_at) + interval_s
            return None
        return self.defer(host, now=now)

    def defer(self, host: Host[T], *, now: float) -> Deferral:
        """A slot for a request of a host, after all that are queued or deferred already."""
        interval_s = host.interval_s
        queued_until = host.free_at(now) + len(host.queue) * interval_s
        slot_at = max(host.virtual_at, queued_until)
        host.virtual_at = slot_at + interval_s
        wait_s = min(slot_at - now, self._tiers_s[-1])
        return Deferral(tier_for(wait_s, self._tiers_s), wait_s)

    def add(self, host: Host[T], item: T, *, priority: int, now: float) -> None:
        """Queue a request."""
        heapq.heappush(host.queue, (-priority, next(self._turns), item))
        self.size += 1
        self._schedule(host, now)

    def put_back(self, host: Host[T], item: T, *, priority: int, now: float) -> None:
        """Queue a request that was popped and not begun, before all others of its priority."""
        heapq.heappush(host.queue, (-priority, -next(self._turns), item))
        self.size += 1
        self._schedule(host, now)

    def pop(self, now: float) -> tuple[Host[T], T, str] | None:
        """The next host and request to begin, and the address held; None: nobody is due.

        The request counts as in flight from now on, until `release`. A host whose next request
        turns out to be due later goes back with its new due time.
        """
        while self._heap and self._heap[0][0] <= now:
            host = heapq.heappop(self._heap)[2]
            host.scheduled = False
            if not host.queue or not self._may_begin(host, now):
                continue
            due_at = host.free_at(now)
            if due_at > now:
                self._push(host, due_at)
                continue
            _, _, item = heapq.heappop(host.queue)
            self.size -= 1
            host.in_flight += 1
            self._hold(host.address)
            return host, item, host.address
        return None

    def begin(self, host: Host[T], *, now: float, jitter: float) -> None:
        """A popped request, or a robots.txt, goes out now: the host's delay starts."""
        host.pace = politeness.started(host.pace, host.delay_s, now, jitter)
        self._schedule(host, now)

    def release(self, host: Host[T], *, address_held: str, now: float) -> None:
        """A request is over: its host, and the address it held, may be asked again."""
        host.in_flight -= 1
        self._schedule(host, now)
        if address_held:
            left = self._at_address.get(address_held, 0) - 1
            if left > 0:
                self._at_address[address_held] = left
            else:
                self._at_address.pop(address_held, None)
            waiting = self._parked.pop(address_held, None)
            for parked in (waiting or {}).values():
                self._schedule(parked, now)

    def hold_address(self, host: Host[T], address: str) -> str:
        """Count a request under the address that it turned out to go to; gives that address.

        For the first request of a host, whose address was not known when it was popped.
        """
        host.address = address
        self._hold(address)
        return address

    def next_due(self) -> float | None:
        """When `pop` may next have something; None: not before a release or an addition."""
        return self._heap[0][0] if self._heap else None

    def ungate(self, host: Host[T], now: float) -> None:
        """Let a host's requests begin again after its robots.txt was read."""
        host.gated = False
        self._schedule(host, now)

    def drain(self, host: Host[T]) -> list[T]:
        """Take all queued requests of a host, in their order."""
        items = [item for _, _, item in sorted(host.queue, key=lambda entry: entry[:2])]
        self.size -= len(items)
        host.queue.clear()
        return items

    def discard(self, wanted: Callable[[T], bool]) -> int:
        """Forget all queued requests that `wanted` says; gives their number."""
        dropped = 0
        for host in self.hosts.values():
            kept = [entry for entry in host.queue if not wanted(entry[2])]
            if len(kept) != len(host.queue):
                dropped += len(host.queue) - len(kept)
                heapq.heapify(kept)
                host.queue = kept
        self.size -= dropped
        return dropped

    def reassigned(self, partitions: AbstractSet[int], now: float) -> None:
        """These partitions were given to us anew: another process may have asked their hosts.

        What was queued comes again and takes its places again, before all that was deferred.
        """
        for host in self.hosts.values():
            if host.partition in partitions:
                host.pace = politeness.reassigned(host.pace, now, host.delay_s)
                host.virtual_at = 0.0

    def forget_idle(self, now: float) -> int:
        """Forget hosts that have no requests and nothing left to wait for; gives their number."""
        idle = [
            key
            for key, host in self.hosts.items()
            if not host.queue
            and not host.in_flight
            and not host.scheduled
            and max(host.pace.next_at, host.virtual_at, host.breaker.until) + IDLE_S < now
        ]
        for key in idle:
            del self.hosts[key]
        return len(idle)

    def eligible(self, now: float, horizon_s: float) -> int:
        """Queued requests that politeness allows to begin within a horizon."""
        total = 0
        for host in list(self.hosts.values()):
            if host.queue:
                free_s = horizon_s - (host.free_at(now) - now)
                interval_s = host.interval_s
                if free_s < 0:
                    continue
                allowed = int(free_s / interval_s) + 1 if interval_s else len(host.queue)
                total += min(len(host.queue), allowed)
        return total

    def ready(self, now: float) -> int:
        """Queued requests that could begin now, were there a connection for them.

        Like `eligible`, safe to call from another thread than the one that changes the window.
        """
        return sum(
            min(len(host.queue), max(0, host.parallel - host.in_flight))
            for host in list(self.hosts.values())
            if host.queue and not host.gated and host.free_at(now) <= now
        )

    def _hold(self, address: str) -> None:
        if address:
            self._at_address[address] = self._at_address.get(address, 0) + 1

    def _schedule(self, host: Host[T], now: float) -> None:
        if host.queue and not host.scheduled and self._may_begin(host, now):
            self._push(host, host.free_at(now))

    def _push(self, host: Host[T], due_at: float) -> None:
        host.scheduled = True
        heapq.heappush(self._heap, (due_at, next(self._turns), host))

    def _may_begin(self, host: Host[T], now: float) -> bool:
        parallel = host.parallel
        if host.breaker.openings and breakers.state(host.breaker, now) == "half_open":
            parallel = 1
        if host.gated or host.in_flight >= parallel:
            return False
        address = host.address
        if address and self._at_address.get(address, 0) >= self._per_address:
            self._parked.setdefault(address, {})[host.key] = host
            return False
        return True
