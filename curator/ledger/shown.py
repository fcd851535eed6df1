"""Whether what a ledger shows follows from its entries, one of each in memory at a time.

Runs are shown in the order in which they were opened, so both are read once, side by side: the
shown run is taken up with the entry that opened it, and compared when it is closed or at the end.
Totals are compared with those that followed every entry, and with the sums over the shown runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NoReturn, final

from curator.ledger.book import Book, Watch, follow
from curator.ledger.chain import Entry
from curator.ledger.problems import ChainBroken
from curator.ledger.records import RunState
from curator.ledger.totals import Totals, over_analysts

_NOTHING: Final = Totals()


def check_shown(
    entries: Iterable[Entry], shown: Book, runs: Iterator[RunState], watch: Watch | None = None
) -> None:
    """Check that what a ledger shows is what its entries tell.

    Args:
        entries: All of them.
        shown: The data sets and the totals.
        runs: All that are shown, in the order in which they were opened.
        watch: Is told of every entry as it is replayed.

    Raises:
        ChainBroken: If the chain does not hold, or a data set, a run or a total differs; the text
            names it.
    """
    beside, told = _Beside(runs), Book()
    for entry, state in follow(entries, told):
        if isinstance(state, RunState):
            beside.see(state)
        if watch is not None:
            watch(entry, state, told)
    for name in {**told.datasets, **shown.datasets}:
        if told.datasets.get(name) != shown.datasets.get(name):
            _refuse(f"the data set {name!r} is shown")
    sums = beside.end(told)
    for key in {**told.totals, **shown.totals, **sums}:
        told_total = told.totals.get(key)
        if not told_total == shown.totals.get(key) == sums.get(key):
            _refuse(f"the runs of data set {key[0]!r} are counted")


@final
class _Beside:
    """The shown runs, read beside a replay."""

    def __init__(self, runs: Iterator[RunState]) -> None:
        self._runs = runs
        self._open: dict[str, RunState] = {}
        self._sums: dict[tuple[str, str], Totals] = {}

    def see(self, told: RunState) -> None:
        """Take up the row of a run that was opened, and compare that of one that was closed.

        Raises:
            ChainBroken: If they differ.
        """
        if told.run_id not in self._open:
            shown = next(self._runs, None)
            if shown is None or shown.run_id != told.run_id:
                _refuse(f"the run {told.run_id!r} is shown")
            self._open[told.run_id] = shown
        if not told.is_open:
            self._compare(told)

    def end(self, told: Book) -> Mapping[tuple[str, str], Totals]:
        """Compare the runs that are open still.

        Returns:
            The totals as sums over all shown runs.

        Raises:
            ChainBroken: If a run differs, or one is shown that was never opened.
        """
        for run in told.runs.values():
            self._compare(run)
        for extra in self._runs:
            _refuse(f"the run {extra.run_id!r} is shown")
        return over_analysts(self._sums)

    def _compare(self, told: RunState) -> None:
        shown = self._open.pop(told.run_id)
        if shown != told:
            _refuse(f"the run {told.run_id!r} is shown")
        key = shown.dataset, shown.analyst
        self._sums[key] = self._sums.get(key, _NOTHING).moved(None, shown)


def _refuse(what: str) -> NoReturn:
    msg = f"{what} otherwise than the entries say"
    raise ChainBroken(msg)
