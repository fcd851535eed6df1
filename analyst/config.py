"""The analyst's configuration: the command line, how to reach a curator, and what to train.

The tree is `Recipe` (what to train, from a TOML file and options) beside `ConnectionConfig` (where,
and with which credentials). A credential is a path; its content is read only by `analyst.client`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from analyst.embedding.flags import add_embedding
from analyst.evaluation.flags import add_evaluate, add_export
from analyst.recipes import Recipe
from analyst.recipes.flags import add_recipe_flags
from analyst.training.federation import MemberConfig
from analyst.training.federation.flags import (
    access_problem,
    add_curators,
    add_rule,
    check_one_curator,
)

__all__ = [
    "ConnectionConfig",
    "ExitCode",
    "Recipe",
    "connection_config",
    "member_connection",
    "parse",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionConfig:
    """How to reach a curator."""

    target: str  # HOST:PORT or unix:/path
    credentials: Path | None
    insecure_loopback: bool
    timeout_s: float


class ExitCode(IntEnum):
    """What the process answers to its caller."""

    OK = 0
    FAILED = 1  # a fault of this program
    USAGE = 2  # the command line, as argparse says
    RECIPE = 3  # a recipe or an option that changes one
    FILES = 4  # credentials, a checkpoint, a file of images, or what an evaluation needs
    REFUSED = 5  # the curator said no
    BUDGET_EXHAUSTED = 6  # the data set cannot afford what was asked
    UNREACHABLE = 7  # the curator does not answer; a checkpoint was saved if a run was open
    PROTOCOL = 8  # the curator's answer makes no sense: versions differ
    INTERRUPTED = 130  # SIGINT or SIGTERM; a checkpoint was saved


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments of one command; a usage error ends the process with its message."""
    parser = _build_parser()
    arguments = parser.parse_args(argv)
    problem = access_problem(arguments) if "curator" in arguments else None
    if problem is not None:
        parser.error(problem)
    return arguments


def _build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command."""
    parser = argparse.ArgumentParser(
        prog="analyst",
        description="Train generators of images that you never see.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_train(_command(commands, "train", "open or resume a run and train a generator"))
    _add_plan(_command(commands, "plan", "what steps cost and what an epsilon buys; free"))
    close = _command(commands, "close", "end a run and give back what it did not use")
    close.add_argument("run_id", metavar="RUN_ID", help="as 'train' printed it")
    _add_connection(close)
    certificate = _command(commands, "certificate", "check a privacy certificate, offline")
    certificate.add_argument("action", choices=["verify"])
    certificate.add_argument("file", type=Path, metavar="FILE")
    certificate.add_argument(
        "--credentials", type=Path, help="also check that the curator of these credentials signed"
    )
    budget = _command(commands, "budget", "what is left of the budget")
    _add_connection(budget)
    budget.add_argument("--dataset", metavar="NAME", help="one data set [all that you may use]")
    _add_sample(_command(commands, "sample", "images from a run's newest checkpoint; free"))
    add_evaluate(_command(commands, "evaluate", "train on synthetic images, test on public ones"))
    add_export(_command(commands, "export", "a synthetic set as NPZ, image folder or IDX"))
    add_embedding(
        _command(commands, "embedding", "fetch a release once, and train on it offline"),
        _add_connection,
    )
    recipes = _command(commands, "recipes", "list the recipes, or print one")
    recipes.add_argument("name", nargs="?", metavar="NAME", help="print this recipe")
    return parser


def connection_config(arguments: argparse.Namespace) -> ConnectionConfig:
    """Return how to reach the one curator that the arguments name."""
    check_one_curator(arguments)
    return ConnectionConfig(
        target=arguments.curator[0],
        credentials=arguments.credentials[0] if arguments.credentials else None,
        insecure_loopback=arguments.insecure_loopback,
        timeout_s=arguments.timeout,
    )


def member_connection(member: MemberConfig, arguments: argparse.Namespace) -> ConnectionConfig:
    """Return how to reach one of several curators."""
    return ConnectionConfig(
        target=member.address,
        credentials=member.credentials,
        insecure_loopback=member.insecure_loopback,
        timeout_s=arguments.timeout,
    )


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _add_connection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("curator")
    add_curators(group)
    group.add_argument(
        "--insecure-loopback", action="store_true", help="no TLS; only to this machine, for trials"
    )
    group.add_argument(
        "--timeout",
        type=_positive,
        default=10.0,
        metavar="S",
        help="seconds an answer may take [10]",
    )


def _add_train(parser: argparse.ArgumentParser) -> None:
    _add_connection(parser)
    start = parser.add_mutually_exclusive_group(required=True)
    start.add_argument("--recipe", metavar="NAME|FILE.toml", help="start a new run")
    start.add_argument("--resume", action="store_true", help="go on with the run in --out")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where a run lives")
    parser.add_argument(
        "--start-from", type=Path, metavar="DIR", help="take the generator's weights of another run"
    )
    parser.add_argument(
        "--show-refusal",
        action="store_true",
        help="when finished, ask for one more step and explain the refusal",
    )
    add_rule(parser)
    add_recipe_flags(parser)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    _add_connection(parser)
    parser.add_argument("--recipe", required=True, metavar="NAME|FILE.toml")
    question = parser.add_mutually_exclusive_group()
    question.add_argument("--for-steps", type=_count, metavar="N", help="what would N steps cost?")
    question.add_argument("--for-epsilon", type=_positive, metavar="E", help="what would E buy?")
    add_recipe_flags(parser)


def _add_sample(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out-of", type=Path, required=True, metavar="RUN_DIR")
    parser.add_argument("--count", type=_count, required=True, metavar="N")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.npz|FILE.png")
    parser.add_argument("--seed", type=int, default=0, help="of labels and latents [0]")
    parser.add_argument(
        "--weights", choices=("ema", "generator"), default="ema", help="averaged or last [ema]"
    )
    # accepted like everywhere else, though sampling asks no curator: it is free post-processing
    parser.add_argument("--curator", dest="unused_curator", help=argparse.SUPPRESS)
    parser.add_argument("--credentials", dest="unused_credentials", help=argparse.SUPPRESS)


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        msg = "must be at least 1"
        raise argparse.ArgumentTypeError(msg)
    return value


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        msg = "must be above 0"
        raise argparse.ArgumentTypeError(msg)
    return value
