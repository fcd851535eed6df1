"""What opening a run and answering its steps work on, built once by bootstrap."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from curator.privacy.noise import NoiseSource
from curator.service.fair_turns import FairTurns
from curator.service.limits import Limits
from curator.service.response_slot import WHEN_READY, ResponseSlot
from curator.service.runs import Runs
from curator.service.step_rate import StepRates
from curator.telemetry.requests import Telemetry


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Computing:
    """With what steps are computed, and when their answers leave."""

    noise: NoiseSource
    executor: Executor  # outlives the request that asked
    preparing: Executor | None = None  # for what takes long, so that other steps do not wait
    draw_noise_ahead: Callable[[], None] = lambda: None  # when an answer has left
    slot: ResponseSlot = WHEN_READY

    @property
    def apart(self) -> Executor:
        """Where work that takes long is done."""
        return self.executor if self.preparing is None else self.preparing


def _desk() -> FairTurns:
    """Return turns for one piece of each caller; long ones compute in turns of their own."""
    return FairTurns(1, extra=7, longest_rest=0.25)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Service:
    """The runs of a process that computes."""

    runs: Runs
    computing: Computing
    limits: Limits
    telemetry: Telemetry = field(default_factory=Telemetry)
    desk: FairTurns = field(default_factory=_desk)  # for all work but computing
    rates: StepRates = field(init=False)

    def __post_init__(self) -> None:
        """Count steps by the same clock."""
        object.__setattr__(self, "rates", StepRates(self.runs.monotonic))
