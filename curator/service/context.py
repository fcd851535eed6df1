"""What every use case works on, built once by bootstrap."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from curator.data.sampling import PrivateRecords
from curator.errors import UnknownDataset
from curator.ledger.ledger import Ledger
from curator.privacy.facts import DatasetFacts
from curator.privacy.noise import NoiseSource
from curator.service.live_run import LiveRun
from curator.service.response_slot import WHEN_READY, ResponseSlot

_KEPT_CLOSED_RUNS = 8


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ServedDataset:
    """A data set with its public facts and its private records."""

    facts: DatasetFacts
    records: PrivateRecords


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Context:
    """The collaborators of the use cases."""

    ledger: Ledger
    datasets: dict[str, ServedDataset]
    noise: NoiseSource
    executor: Executor  # computes answers; outlives the request that asked
    holder: str  # this process, in the ledger's words
    max_samples: int
    slot: ResponseSlot = WHEN_READY
    monotonic: Callable[[], float] = time.monotonic
    live_runs: dict[str, LiveRun] = field(default_factory=dict)
    runs_lock: threading.Lock = field(default_factory=threading.Lock)

    def forget_closed_runs(self) -> None:
        """Let go of the oldest used-up runs; the last ones stay for a retry of their last steps."""
        with self.runs_lock:
            closed = [run_id for run_id, live in list(self.live_runs.items()) if live.closed]
            for run_id in closed[:-_KEPT_CLOSED_RUNS]:
                self.live_runs.pop(run_id, None)

    def served(self, name: str) -> ServedDataset:
        """Return a data set.

        Args:
            name: As the caller gave it.

        Returns:
            The data set.

        Raises:
            UnknownDataset: If there is none of that name.
        """
        dataset = self.datasets.get(name)
        if dataset is None:
            raise UnknownDataset
        return dataset
