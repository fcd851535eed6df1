"""The curators of a federation: reached, their runs opened at all or none, and ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, final

from analyst.errors import AnalystError, FederationError, RunClosed
from analyst.training.federation.config import MemberConfig
from analyst.training.run_source import Curator, ImageRun

if TYPE_CHECKING:
    from analyst.training.federation.folder import FederationFolder

T = TypeVar("T")

ConnectMember = Callable[[MemberConfig], AbstractContextManager[Curator]]
Say = Callable[[str], None]

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


def open_all(
    members: Sequence[Member],
    order: Sequence[int],
    share_K: Sequence[int],
    questions: Sequence[Callable[[Curator], ImageRun]],
    *,
    say: Say,
) -> None:
    """Open a run of each curator's share, one after the other; if one refuses, close the others.

    Args:
        members: All curators; each takes its run.
        order: Positions: who is asked first.
        share_K: Steps to declare at each; a curator with none is left out.
        questions: What opens the run at each.
        say: Told of every run, so that one that is left over can be closed by hand.

    Raises:
        AnalystError: As a curator refused.
    """
    try:
        for position in order:
            member = members[position]
            if share_K[position] == 0:
                problem = "its budget affords no step"
                member.problem = FederationError(problem, "Go on without it.")
                say(f"curator {member.name} is left out: {problem}")
                continue
            member.take(ask_member(member, questions[position], say=say))
            say(f"curator {member.name}: run {member.run_id}, {share_K[position]:,} steps")
    except BaseException:
        _close_again(members, say)
        raise


def _close_again(members: Sequence[Member], say: Say) -> None:
    for member in members:
        if member.run is None:
            continue
        try:
            member.run.close()
            say(f"run {member.run_id} at {member.name} is closed again, no step used")
        except AnalystError as error:
            say(f"run {member.run_id} at {member.name} is open still: {error.message}")


def close_members(
    members: Sequence[Member],
    executor: Executor,
    *,
    folder: FederationFolder | None,
    say: Callable[[str], None],
) -> list[AnalystError]:
    """Close every run; those of lost curators are tried once more.

    Args:
        members: All curators.
        executor: Sends to several at once.
        folder: Where certificates are kept; None keeps none.
        say: Told of certificates and of what could not be closed.

    Returns:
        What went wrong, one per curator whose run may still be open.
    """
    futures = [(k, one, executor.submit(_close, one)) for k, one in enumerate(members) if one.run]
    problems = []
    for position, member, future in futures:
        try:
            future.result()
        except AnalystError as error:
            problems.append(error)
            say(f"run {member.run_id} at {member.name} could not be closed: {error.message}")
            say(
                f"close it later with 'analyst close {member.run_id} --curator ...', or the "
                "curator closes it when it was idle for long"
            )
            continue
        if folder is not None and member.certificate:
            say(f"the privacy certificate is {folder.save_certificate(position, member)}")
    unreached = [one for one in members if one.run is None and one.problem and one.run_id != NO_RUN]
    for member in unreached:
        say(f"run {member.run_id} at {member.name} was not closed: it is lost")
    return problems + [one.problem for one in unreached if one.problem is not None]


def _close(member: Member) -> None:
    """Close one run; one that has ended before hands out its certificate all the same."""
    run = member.run
    if run is None:
        return
    try:
        run.close()
    except RunClosed:
        if member.barrier is None:
            return
        run = member.barrier.resume_run(member.run_id)
    member.certificate = getattr(run, "certificate", "")


@contextmanager
def connected(
    configs: Sequence[MemberConfig], connect: ConnectMember, *, tolerant: bool, say: Say
) -> Iterator[list[Member]]:
    """Connect to several curators while the block runs.

    Args:
        configs: In the public order.
        connect: Reaches one.
        tolerant: Take one that cannot be reached as lost, instead of an error.
        say: Told which cannot be reached.

    Yields:
        The curators.

    Raises:
        AnalystError: If one cannot be reached and that is an error.
    """
    with ExitStack() as stack:
        members = []
        for config in configs:
            member = Member(config=config, barrier=None)
            try:
                member.barrier = stack.enter_context(connect(config))
            except AnalystError as error:
                say(f"curator {config.label}: {error.message}")
                if not tolerant:
                    raise
                member.problem = error
            members.append(member)
        yield members
