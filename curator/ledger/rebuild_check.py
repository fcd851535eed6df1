"""Whether what a ledger shows follows from its entries, one of each in memory at a time.

Runs are shown in the order in which they were opened, so both are read once, side by side: the
shown run is taken up with the entry that opened it, and compared when it is closed or at the end.
Totals are compared with those that followed every entry, and with the sums over the shown runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn, Protocol, final

from curator.ledger.book import Book, Place, follow
from curator.ledger.chain import Entry
from curator.ledger.datasets_and_runs import DatasetState, RunState
from curator.ledger.problems import ChainBroken
from curator.ledger.totals import Sums


class Watcher(Protocol):
    """Sees every entry of a ledger once, and can go on where it was when that was kept."""

    def see(self, entry: Entry, state: DatasetState | RunState, book: Book) -> None:
        """Take in an entry, what it changed, and the book after it, always the same."""
        ...

    def kept(self) -> dict[str, object]:
        """Return all that was taken in, as plain values."""
        ...

    def go_on(self, kept: dict[str, object], place: Place) -> None:
        """Start with what `kept` returned after an entry.

        Raises:
            ValueError: If it cannot be read.
        """
        ...


def check_shown(
    entries: Iterable[Entry],
    shown: Book,
    runs: Iterator[RunState],
    place: Place,
    watcher: Watcher | None = None,
) -> None:
    """Check that what a ledger shows is what its entries tell.

    Args:
        entries: All of them after the place.
        shown: The data sets, the totals, and the runs that are open at the place.
        runs: All that are shown and were opened later, in the order in which they were opened.
        place: Where to begin; it is at the end then.
        watcher: Is told of every entry as it is replayed.

    Raises:
        ChainBroken: If the chain does not hold, or a data set, a run or a total differs; the text
            names it.
    """
    beside, told = _Beside(runs, shown, place.book), place.book
    for entry, state in follow(entries, place):
        if isinstance(state, RunState):
            beside.see(state)
        if watcher is not None:
            watcher.see(entry, state, told)
    for name in {**told.datasets, **shown.datasets}:
        if told.datasets.get(name) != shown.datasets.get(name):
            refuse(f"the data set {name!r} is shown")
    beside.end(told)
    sums = beside.sums.totals()
    for key in {**told.totals, **shown.totals, **sums}:
        total = told.totals.get(key)
        if not total == shown.totals.get(key) == sums.get(key):
            refuse(f"the runs of data set {key[0]!r} are counted")


@final
class _Beside:
    """The shown runs, read beside a replay; sums are of the shown runs."""

    def __init__(self, runs: Iterator[RunState], shown: Book, begin: Book) -> None:
        self._runs = runs
        self._open = dict(shown.runs)
        self.sums = Sums(begin.totals)
        for run in begin.runs.values():
            self.sums.add(run, -1)

    def see(self, told: RunState) -> None:
        """Take up the row of a run that was opened, and compare that of one that was closed.

        Raises:
            ChainBroken: If they differ.
        """
        if told.run_id not in self._open:
            shown = next(self._runs, None)
            if shown is None or shown.run_id != told.run_id:
                refuse(f"the run {told.run_id!r} is shown")
            self._open[told.run_id] = shown
        if not told.is_open:
            self._compare(told)

    def end(self, told: Book) -> None:
        """Compare the runs that are open still.

        Raises:
            ChainBroken: If a run differs, or one is shown that was never opened.
        """
        for run in told.runs.values():
            self._compare(run)
        extra = next(self._runs, None)
        if extra is not None:
            refuse(f"the run {extra.run_id!r} is shown")

    def _compare(self, told: RunState) -> None:
        shown = self._open.pop(told.run_id, None)
        if shown is None or shown != told:
            refuse(f"the run {told.run_id!r} is shown")
        self.sums.add(shown)


def refuse(what: str) -> NoReturn:
    """Say what is not shown as the entries have it.

    Raises:
        ChainBroken: Always.
    """
    msg = f"{what} otherwise than the entries say"
    raise ChainBroken(msg)
