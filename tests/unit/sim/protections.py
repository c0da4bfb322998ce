"""What keeps URLs from being lost, each as a switch of the simulation."""

from __future__ import annotations

from typing import NamedTuple


class Protections(NamedTuple):
    """All on is how the product works; a test turns each off and sees the oracle object."""

    first_sighting: bool = True
    """An id whose row holds the position in hand is requested again: with `rows_first`, where it
    is what makes a replay safe."""
    rows_first: bool = False
    """The table is written before the requests are delivered, as Faust's own tables are."""
    ordered_acks: bool = True
    """Dedup acks in offset order."""
    prefix_commit: bool = True
    """The completed prefix is committed, not the highest completed offset."""
    await_before_complete: bool = True
    """A message is completed after its outputs were acknowledged."""
    epoch_fencing: bool = True
    """Commits of an old generation are refused, and a ledger ends with its epoch."""
    lease: bool = True
    """Nothing is begun while the partition may be another's."""
    completed_beyond: bool = True
    """Completed offsets beyond the prefix are carried in the commit metadata."""
    bounded_waits: bool = True
    """A retry waits as long as its tier lasts at most, whatever the clock says."""
    own_chain: bool = True
    """Dedup lets a redirect back to its own chain through."""
    compared_cookies: bool = True
    """What a chain returns to is asked again when it would be asked with other cookies."""
    whole_recovery: bool = True
    """Dedup works only after its table is restored to the end of the changelog."""
