"""`curator audit`: attack throw-away curators and compare what leaks with what is claimed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import typer

from audit import CANARIES, ONE_RUN_TARGETS, TARGETS
from curator.cli.command import Task, command
from curator.cli.options import Command, flag, option, spread

if TYPE_CHECKING:
    from audit.canaries import Pair
    from audit.game import Progress
    from audit.one_run_report import OneRunReport
    from audit.report import Report
    from audit.target import Target

app = typer.Typer()

_LEAST_TRIALS = 20
_MOST_TRIALS = 1_000_000
_TRIALS = 2000
_NOISE_MULTIPLIER = 1.0
_EPSILON = 4.0
_LEAST_EPSILON, _MOST_EPSILON = 0.1, 10.0
_CONFIDENCE = 0.95


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

    trials: int | None = option(f"On each data set, at least 20 (usually {_TRIALS}).", "N")
    canary: list[str] | None = option(
        f"Of {', '.join(CANARIES)}.", "NAME", callback=_one_of(CANARIES)
    )
    mechanism: list[str] | None = option(
        f"Of {', '.join(TARGETS)}.", "NAME", callback=_one_of(TARGETS)
    )
    noise_multiplier: float | None = option(
        f"Of every mechanism (usually {_NOISE_MULTIPLIER:g}).", "Z"
    )
    delta: float = option("Of the claim.", "D", default=1e-5)


@dataclass(frozen=True, kw_only=True, slots=True)
class OneRun:
    """Whether, and how, one whole run of each mechanism is attacked instead."""

    SECTION: ClassVar = "One run"

    one_run: bool = flag(
        "--one-run",
        "Attack one whole run with many canaries, each in or out by a coin, in place of games; of "
        f"{', '.join(ONE_RUN_TARGETS)}.",
    )
    epsilon: float | None = option(
        f"Claimed for the whole run; noise follows from it (usually {_EPSILON:g}).", "E"
    )
    confidence: float | None = option(f"Of all bounds together (usually {_CONFIDENCE:g}).", "P")


class AuditCommand(Command):
    """Takes several names after one --canary or --mechanism, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a command line, with both options once for each of their values."""
        return super().parse_args(ctx, spread(spread(args, "--canary"), "--mechanism"))


@command(
    app,
    "audit --canary flip --mechanism dp-sinkhorn --trials 500",
    "audit --one-run --mechanism mean-embedding --epsilon 4",
    reads=True,
    kind=AuditCommand,
)
def audit(task: Task, *, game: Game, one_run: OneRun) -> None:
    """Attack throw-away curators and compare what leaks with what is claimed.

    Play the distinguishing game: serve two neighbouring data sets of public canary images from
    throw-away curators, over TLS and gRPC, and tell them apart by the answers. Prints a lower bound
    of epsilon beside the claim; the exit code is not 0 if a bound is above its claim. No private
    data is read and no budget is touched. All games together take hours: name a canary and a
    mechanism. With --one-run a whole run is attacked once, which takes minutes.

    Raises:
        AuditFailed: If a number is out of range, or a claim does not stand.
    """
    report = _one_run(game, one_run) if one_run.one_run else _played(game, one_run)
    _say("")
    task.screen.answer(report.document())
    task.screen.show(report.text())
    wrong = report.verdicts.count(False)
    if wrong:
        msg = f"{wrong} of {len(report.verdicts)} checks contradict a claim"
        raise AuditFailed(msg)


def _played(game: Game, one_run: OneRun) -> Report:
    """Play all games that are asked for.

    Raises:
        AuditFailed: If a number is out of range, or no game is left.
    """
    from audit.report import Report  # torch

    for given, name in ((one_run.epsilon, "--epsilon"), (one_run.confidence, "--confidence")):
        if given is not None:
            msg = f"{name}: only with --one-run; leave it out, or add --one-run"
            raise AuditFailed(msg)
    trials = _TRIALS if game.trials is None else game.trials
    games = _games(game, trials)
    return Report.of(games, trials, game.delta, lambda name: _progress(name, trials))


def _one_run(game: Game, one_run: OneRun) -> OneRunReport:
    """Attack one run of each mechanism that is asked for.

    Raises:
        AuditFailed: If a number is out of range, or an option belongs to games.
    """
    from audit.one_run import OneRunRules  # torch
    from audit.one_run_report import OneRunReport

    for given, name in (
        (game.trials, "--trials"),
        (game.canary, "--canary"),
        (game.noise_multiplier, "--noise-multiplier"),
    ):
        if given is not None:
            msg = f"{name}: not with --one-run, whose noise follows from --epsilon; leave it out"
            raise AuditFailed(msg)
    mechanisms = game.mechanism or ONE_RUN_TARGETS
    for name in mechanisms:
        if name not in ONE_RUN_TARGETS:
            msg = (
                f"--mechanism {name}: --one-run attacks {', '.join(ONE_RUN_TARGETS)}; name one of "
                "them, or leave --one-run out"
            )
            raise AuditFailed(msg)
    epsilon = _EPSILON if one_run.epsilon is None else one_run.epsilon
    confidence = _CONFIDENCE if one_run.confidence is None else one_run.confidence
    if not _LEAST_EPSILON <= epsilon <= _MOST_EPSILON:
        msg = f"--epsilon must be from {_LEAST_EPSILON} to {_MOST_EPSILON}"
        raise AuditFailed(msg)
    if not 0 < confidence < 1:
        msg = "--confidence must be above 0 and below 1"
        raise AuditFailed(msg)
    _check_delta(game.delta)
    rules = OneRunRules(epsilon=epsilon, delta=game.delta, error=1 - confidence)
    return OneRunReport.of(mechanisms, rules, _say)


def _check_delta(delta: float) -> None:
    """Refuse what is no delta.

    Raises:
        AuditFailed: If it is out of range.
    """
    if not 0 < delta < 1:
        msg = "--delta must be above 0 and below 1"
        raise AuditFailed(msg)


def _games(game: Game, trials: int) -> list[tuple[Target, Pair]]:
    """Return every mechanism that is asked for with each canary that has a meaning for it.

    Raises:
        AuditFailed: If a number is out of range, or no game is left.
    """
    from audit.canaries import make_pair
    from audit.targets import make_target

    if not _LEAST_TRIALS <= trials <= _MOST_TRIALS:
        msg = f"--trials must be from {_LEAST_TRIALS} to {_MOST_TRIALS}"
        raise AuditFailed(msg)
    _check_delta(game.delta)
    noise = _NOISE_MULTIPLIER if game.noise_multiplier is None else game.noise_multiplier
    targets = [make_target(one, noise) for one in game.mechanism or TARGETS]
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
