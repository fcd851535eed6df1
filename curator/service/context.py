"""What every use case works on, built once by bootstrap."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

from curator.data.sampling import PrivateRecords
from curator.divergences.backend import Choice
from curator.errors import DatasetOutOfService, DatasetRetired, Refusal, UnknownDataset
from curator.ledger.ledger import Ledger
from curator.privacy.facts import DatasetFacts
from curator.privacy.noise import NoiseSource
from curator.service.answer_cache import AnswerCache
from curator.service.fair_turns import FairTurns
from curator.service.in_turn import InTurn
from curator.service.live_run import LiveRun
from curator.service.releases_in_progress import Setups
from curator.service.response_slot import WHEN_READY, ResponseSlot
from curator.service.step_rate import StepRates
from curator.state.folder import StateFolder
from curator.telemetry.requests import Telemetry

_KEPT_CLOSED_RUNS = 8


def _desk() -> FairTurns:
    """Return turns for one piece of each caller; long ones compute in turns of their own."""
    return FairTurns(1, extra=7, longest_rest=0.25)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ServedDataset:
    """A data set with its public facts and its private records.

    There are no records once they were erased, or if they were damaged when they were loaded.
    """

    facts: DatasetFacts
    records: PrivateRecords | None
    is_damaged: bool = False

    @property
    def is_in_service(self) -> bool:
        """Whether nothing that was stored is known to be damaged; no record decides it."""
        return not self.is_damaged and (self.records is None or self.records.is_whole())

    def check_in_service(self) -> None:
        """Check that steps can be taken.

        Raises:
            DatasetOutOfService: If what was stored is damaged.
        """
        if not self.is_in_service:
            raise DatasetOutOfService


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Context:
    """The collaborators of the use cases."""

    ledger: Ledger
    datasets: dict[str, ServedDataset]
    noise: NoiseSource
    executor: Executor  # computes answers; outlives the request that asked
    holder: str  # this process, in the ledger's words
    max_samples: int
    max_request_bytes: int = 64 << 20
    max_open_runs: int = 64  # of one analyst, over all data sets
    max_state_bytes: int = 4 << 30  # of what all open runs keep between steps
    check_holder: Callable[[], None] = lambda: None  # raises HolderLost when others may adopt
    load: Callable[[str], ServedDataset | None] = lambda _: None  # of a data set added since
    preparing: Executor | None = None  # for what takes long, so that other steps do not wait
    states: StateFolder | None = None  # of stateful mechanisms; without it a restart ends them
    solver: Choice | None = None  # of the Sinkhorn updates, with its measured error
    draw_noise_ahead: Callable[[], None] = lambda: None  # when an answer has left
    slot: ResponseSlot = WHEN_READY
    monotonic: Callable[[], float] = time.monotonic
    telemetry: Telemetry = field(default_factory=Telemetry)
    live_runs: dict[str, LiveRun] = field(default_factory=dict)
    kept: AnswerCache = field(default_factory=AnswerCache)
    setups: Setups = field(default_factory=Setups)
    stopped: dict[str, type[Refusal]] = field(default_factory=dict)  # data sets, at once
    runs_lock: threading.Lock = field(default_factory=threading.Lock)
    desk: FairTurns = field(default_factory=_desk)  # for all work but computing
    planner: Executor = field(
        default_factory=lambda: InTurn(1, pool=ThreadPoolExecutor(1, thread_name_prefix="planner"))
    )
    rates: StepRates = field(init=False)

    def __post_init__(self) -> None:
        """Count steps by the same clock."""
        object.__setattr__(self, "rates", StepRates(self.monotonic))

    def forget_closed_runs(self) -> None:
        """Let go of the oldest used-up runs; the last ones stay for a retry of their last steps."""
        with self.runs_lock:
            closed = [run_id for run_id, live in list(self.live_runs.items()) if live.closed]
            for run_id in closed[:-_KEPT_CLOSED_RUNS]:
                self.live_runs.pop(run_id, None)

    def served(self, name: str) -> ServedDataset:
        """Return a data set.

        Raises:
            UnknownDataset: If there is none of that name.
        """
        dataset = self.datasets.get(name)
        if dataset is None:
            dataset = self.load(name)
            if dataset is None:
                msg = f"no data set is named {name!r}"
                raise UnknownDataset(msg)
            self.datasets[name] = dataset
        return dataset

    def refuse_stopped(self, name: str) -> None:
        """Refuse a data set that is stopped in this process, charged or not.

        Raises:
            DatasetPaused: If the steward has paused it.
            DatasetRetired: If the steward has retired or erased it.
            DatasetOutOfService: If what was stored is damaged.
        """
        stopped = self.stopped.get(name)
        if stopped is not None:
            raise stopped
        self.served(name).check_in_service()

    def is_in_service(self, name: str) -> bool:
        """Return whether nothing that is stored of a data set is known to be damaged."""
        dataset = self.datasets.get(name)
        return dataset is None or dataset.is_in_service

    def look_at_stored_images(self) -> None:
        """Look whether what is stored is still there; what is not is logged, once."""
        for name in list(self.datasets):
            self.is_in_service(name)

    def records_of(self, name: str) -> PrivateRecords:
        """Return a data set's records.

        Raises:
            DatasetRetired: If they were erased.
            DatasetOutOfService: If they are damaged.
        """
        dataset = self.served(name)
        dataset.check_in_service()
        records = dataset.records
        if records is None:
            raise DatasetRetired
        return records
