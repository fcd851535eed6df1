"""Open a run at every curator, or at none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analyst.errors import AnalystError
from analyst.training.federation.errors import FederationError
from analyst.training.federation.member import Member, ask_member
from analyst.training.run_source import Curator, ImageRun

Say = Callable[[str], None]


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
