"""`curator audit`: attack throw-away curators and compare what leaks with what is claimed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from audit import CANARIES, TARGETS
from curator.cli.command import Task, command
from curator.cli.options import Command, option, spread

if TYPE_CHECKING:
    from audit.canaries import Pair
    from audit.game import Progress
    from audit.target import Target

app = typer.Typer()

_LEAST_TRIALS = 20
_MOST_TRIALS = 1_000_000


class AuditFailed(Exception):
    """Something was proved that contradicts a claim, or the audit cannot be played."""


def _one_of(known: tuple[str, ...]) -> Any:
    """Return what checks that all values are known."""

    def check(values: list[str] | None) -> list[str] | None:
        for value in values or ():
            if value not in known:
                msg = f"'{value}' is none of {', '.join(known)}"
                raise typer.BadParameter(msg)
        return values

    return check


@dataclass(frozen=True, kw_only=True, slots=True)
class Game:
    """What is played."""

    trials: int = option("On each data set, at least 20.", "N", default=2000)
    canary: list[str] | None = option(
        f"Of {', '.join(CANARIES)}.", "NAME", callback=_one_of(CANARIES)
    )
    mechanism: list[str] | None = option(
        f"Of {', '.join(TARGETS)}.", "NAME", callback=_one_of(TARGETS)
    )
    noise_multiplier: float = option("Of every mechanism.", "Z", default=1.0)
    delta: float = option("Of the claim.", "D", default=1e-5)


class AuditCommand(Command):
    """Takes several names after one --canary or --mechanism, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a command line, with both options once for each of their values."""
        return super().parse_args(ctx, spread(spread(args, "--canary"), "--mechanism"))


@command(
    app, "audit --canary flip --mechanism dp-sinkhorn --trials 500", reads=True, kind=AuditCommand
)
def audit(task: Task, *, game: Game) -> None:
    """Attack throw-away curators and compare what leaks with what is claimed.

    Play the distinguishing game: serve two neighbouring data sets of public canary images from
    throw-away curators, over TLS and gRPC, and tell them apart by the answers. Prints a lower bound
    of epsilon beside the claim; the exit code is not 0 if a bound is above its claim. No private
    data is read and no budget is touched. All games together take hours: name a canary and a
    mechanism.

    Raises:
        AuditFailed: If a number is out of range, or a claim does not stand.
    """
    from audit.report import Report  # torch

    games = _games(game)
    report = Report.of(games, game.trials, game.delta, lambda name: _progress(name, game.trials))
    _say("")
    task.screen.answer(report.document())
    task.screen.show(report.text())
    wrong = report.verdicts.count(False)
    if wrong:
        msg = f"{wrong} of {len(report.verdicts)} checks contradict a claim"
        raise AuditFailed(msg)


def _games(game: Game) -> list[tuple[Target, Pair]]:
    """Return every mechanism that is asked for with each canary that has a meaning for it.

    Raises:
        AuditFailed: If a number is out of range, or no game is left.
    """
    from audit.canaries import make_pair
    from audit.targets import make_target

    if not _LEAST_TRIALS <= game.trials <= _MOST_TRIALS:
        msg = f"--trials must be from {_LEAST_TRIALS} to {_MOST_TRIALS}"
        raise AuditFailed(msg)
    if not 0 < game.delta < 1:
        msg = "--delta must be above 0 and below 1"
        raise AuditFailed(msg)
    targets = [make_target(one, game.noise_multiplier) for one in game.mechanism or TARGETS]
    pairs = [make_pair(one) for one in game.canary or CANARIES]
    games = [(target, pair) for target in targets for pair in pairs if target.suits(pair)]
    if not games:
        msg = (
            "--canary: none that was named makes sense for these mechanisms; leave --canary out to "
            "play all that do"
        )
        raise AuditFailed(msg)
    return games


def _progress(name: str, trials: int) -> Progress:
    """Return a function that rewrites one line on a terminal."""
    rounds = {"without": 0, "last": 0}

    def tell(answers: int) -> None:
        if answers < rounds["last"]:
            rounds["without"] += rounds["last"]
        rounds["last"] = answers
        _say(f"{name}: {rounds['without'] + answers} of {2 * trials} answers")

    return tell


def _say(line: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()
