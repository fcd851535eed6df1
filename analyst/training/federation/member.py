"""One curator of a federation: where it is, its run, and whether it is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, final

from analyst.errors import AnalystError, FederationError
from analyst.training.federation.config import MemberConfig
from analyst.training.run_source import Curator, ImageRun

T = TypeVar("T")

NO_RUN = "-"  # in the joined id of a federation's run


@final
@dataclass(kw_only=True, slots=True, eq=False)
class Member:
    """A curator, connected or lost."""

    config: MemberConfig
    barrier: Curator | None  # None if nothing answered
    problem: AnalystError | None = None  # why it is lost
    run: ImageRun | None = None
    run_id: str = NO_RUN
    dataset: str = ""  # as its curator calls it; empty before it was described
    certificate: str = ""

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.config.label

    @property
    def steps_left(self) -> int:
        """Declared steps that it can still answer; 0 if it is lost."""
        if self.run is None or self.problem is not None:
            return 0
        return max(0, self.run.num_steps - self.run.next_step + 1)

    @property
    def state(self) -> str:
        """In one word: taking part, used up or lost."""
        if self.problem is not None:
            return "lost"
        return "live" if self.steps_left else "used"

    def take(self, run: ImageRun) -> None:
        """Keep its run."""
        self.run, self.run_id = run, run.run_id


def ask_member(
    member: Member, question: Callable[[Curator], T], *, say: Callable[[str], None]
) -> T:
    """Ask one curator, and say which it was if that fails.

    Raises:
        AnalystError: As the curator refused, or why it cannot be asked.
    """
    try:
        if member.barrier is None:
            raise member.problem or FederationError("it is not connected", "Connect to it.")
        return question(member.barrier)
    except AnalystError as error:
        say(f"curator {member.name}: {error.message}")
        raise
