"""The commands of `analyst` that take several curators."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyst.adaptation.load import load_either
from analyst.recipes.flags import read_overrides
from analyst.reports.plans import question_of
from analyst.screen import Screen
from analyst.training.federation.config import FederationConfig
from analyst.training.federation.connecting import ConnectMember, connected
from analyst.training.federation.member import Member
from analyst.training.federation.reports import budgets, close_together, plans, refusals, runs

if TYPE_CHECKING:
    from analyst.training.session import SessionResult


@dataclass(frozen=True, slots=True)
class FederationCommand:
    """What a command with several curators is given."""

    arguments: argparse.Namespace
    config: FederationConfig
    connect: ConnectMember
    screen: Screen

    def members(self) -> AbstractContextManager[list[Member]]:
        """Connect to all; one that does not answer is lost, and the others are asked."""
        return connected(self.config.curator, self.connect, tolerant=True, say=self.screen.warn)


def _train(given: FederationCommand) -> SessionResult:
    from analyst.training.federation.train_together import train_together  # torch, seconds
    from analyst.training.loop import Outcome
    from analyst.training.progress import Progress
    from analyst.training.stop import stop_on_signals

    arguments = given.arguments
    progress = Progress(sys.stderr, quiet=given.screen.quiet)
    with stop_on_signals(quiet=given.screen.quiet) as stop:
        result = train_together(given, progress, stop)
    if result.outcome is Outcome.COMPLETED and arguments.show_refusal:
        with given.members() as members:
            refusals(members, result.recipe, given.screen)
    return result


def _plan(given: FederationCommand) -> None:
    arguments = given.arguments
    recipe = load_either(arguments.recipe, read_overrides(arguments))
    with given.members() as members:
        plans(members, recipe, question_of(arguments), given.screen)


def _budget(given: FederationCommand) -> None:
    with given.members() as members:
        budgets(members, given.arguments.dataset, given.screen)


def _runs(given: FederationCommand) -> None:
    with given.members() as members:
        runs(members, given.screen, open_only=given.arguments.open)


def _close(given: FederationCommand) -> None:
    with given.members() as members:
        close_together(members, given.arguments.run_id, given.screen.warn)
    given.screen.say("all runs are closed; what they did not use went back to the budgets")
    given.screen.answer({"closed": given.arguments.run_id.split("+")})


SEVERAL: dict[str, Callable[[FederationCommand], SessionResult | None]] = {
    "train": _train,
    "plan": _plan,
    "budget": _budget,
    "runs": _runs,
    "close": _close,
}
