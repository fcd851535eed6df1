"""The errors that a ledger raises beside those that a caller may see."""

from __future__ import annotations

from curator.errors import LedgerUnavailable


class LedgerConflict(ValueError):
    """The caller asked for something that cannot follow what is written; a mistake in a program."""


class DatasetExists(LedgerConflict):
    """A data set of this name is registered; its budget never changes."""


class RunExists(LedgerConflict):
    """A run of this id was opened before."""


class HolderLost(LedgerUnavailable):
    """Another process took the run over; this one may neither count nor release anything."""


class HolderAlive(LedgerUnavailable):
    """Another process holds the run, and its lease has not run out."""


class LedgerLocked(RuntimeError):
    """Another process writes this ledger."""


class LedgerFromTheFuture(RuntimeError):
    """The ledger was written by a newer version of this software."""


class ChainBroken(RuntimeError):
    """The ledger was changed by something other than this software."""


class LedgerRestored(LedgerUnavailable):
    """The ledger lacks entries that it once had: it went back, or an older copy is in its place."""
