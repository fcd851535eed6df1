"""Where a run stands, as the curator lists it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from protos.weir.v1 import run_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """A run without what it was opened with; `resume_run` gives the run itself."""

    run_id: str
    dataset: str
    analyst: str
    mechanism: str
    is_open: bool
    num_steps: int
    used_steps: int  # counted as spent
    close_reason: str  # empty while the run is open
    opened_at: str  # ISO 8601 in UTC
    closed_at: str
    one_release: bool  # all that is charged; the steps are free

    @classmethod
    def of(cls, message: run_pb2.RunSummary) -> Self:
        """Return the summary of a message.

        Args:
            message: As received.
        """
        return cls(
            run_id=message.run_id,
            dataset=message.dataset,
            analyst=message.analyst,
            mechanism=message.mechanism,
            is_open=message.status == run_pb2.RUN_STATUS_OPEN,
            num_steps=message.num_steps,
            used_steps=message.used_steps,
            close_reason=message.close_reason,
            opened_at=message.opened_at,
            closed_at=message.closed_at,
            one_release=message.one_release,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RunList:
    """Runs: open ones first, and of each kind the last opened first."""

    runs: tuple[RunSummary, ...]
    num_left_out: int  # older closed ones

    @classmethod
    def of(cls, message: run_pb2.ListRunsResponse) -> Self:
        """Return the list of a message.

        Args:
            message: As received.
        """
        runs = tuple(RunSummary.of(one) for one in message.runs)
        return cls(runs=runs, num_left_out=message.num_left_out)
