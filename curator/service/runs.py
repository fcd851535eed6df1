"""The runs that this process holds, on the ledger that has all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from curator.ledger.ledger import Ledger
from curator.ledger.problems import HolderLost
from curator.service.live_run import AnswerCache, LiveRun
from curator.service.releases_in_progress import Setups
from curator.service.served_datasets import ServedDatasets
from curator.state.folder import StateFolder

_KEPT_CLOSED_RUNS = 8


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Runs:
    """What finding, closing and letting go of runs work on; every process that ends runs has one.

    A steward's command holds none, and takes over those that it ends.
    """

    ledger: Ledger
    datasets: ServedDatasets
    holder: str  # this process, in the ledger's words
    check_holder: Callable[[], None] = lambda: None  # raises HolderLost when others may adopt
    states: StateFolder | None = None  # of stateful mechanisms; without it a restart ends them
    monotonic: Callable[[], float] = time.monotonic
    live: dict[str, LiveRun] = field(default_factory=dict)  # by run id
    lock: threading.Lock = field(default_factory=threading.Lock)  # of what comes into `live`
    kept: AnswerCache = field(default_factory=AnswerCache)
    setups: Setups = field(default_factory=Setups)

    def is_held(self) -> bool:
        """Return whether nobody else may have taken this process's runs over."""
        try:
            self.check_holder()
        except HolderLost:
            return False
        return True

    def close(self, live: LiveRun, reason: str) -> None:
        """Close a run of this process in the ledger, with what was used of it.

        Raises:
            RunClosed: If it is closed.
            LedgerUnavailable: If the closing may not be durable.
            HolderLost: If another process took it over.
        """
        self.ledger.close_run(live.run_id, self.holder, live.epoch, live.used, reason)

    def forget_closed(self) -> None:
        """Let go of the oldest used-up runs; the last ones stay for a retry of their last steps."""
        with self.lock:
            closed = [run_id for run_id, live in list(self.live.items()) if live.closed]
            for run_id in closed[:-_KEPT_CLOSED_RUNS]:
                self.live.pop(run_id, None)
