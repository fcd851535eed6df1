"""`curator audit`: attack throw-away curators and compare what leaks with what is claimed."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import typer

from audit import CANARIES, TARGETS
from curator.cli.command import Task, command
from curator.cli.options import Command, option, spread

app = typer.Typer()


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
    """
    # found by name: the audit asks with the analyst's client, which the curator may not know
    run_audit = import_module("audit.cli").run_audit
    run_audit(Namespace(**asdict(game), json=task.screen.as_json))
