"""The analyst's commands and options, as data for argparse."""

from __future__ import annotations

import argparse
from importlib import metadata
from pathlib import Path

from analyst.adaptation.flags import add_adapt
from analyst.cli_examples import EXAMPLES
from analyst.embedding.flags import add_embedding
from analyst.evaluation.flags import add_evaluate, add_export, add_force
from analyst.recipes.flags import add_recipe_flags
from analyst.training.federation.flags import add_curators, add_rule

SHELLS = ("bash", "zsh", "fish")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="analyst",
        description="Train generators of images that you never see.",
        allow_abbrev=False,
    )
    version = f"%(prog)s of weir-dp {metadata.version('weir-dp')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_train(_command(commands, "train", "open or resume a run and train a generator"))
    _add_plan(_command(commands, "plan", "what steps cost and what an epsilon buys; free"))
    runs = _command(commands, "runs", "your runs here: open ones first, the last opened first")
    runs.add_argument("--open", action="store_true", help="leave out closed runs")
    _add_connection(runs)
    close = _command(commands, "close", "end a run and give back what it did not use")
    close.add_argument("run_id", metavar="RUN_ID", help="as 'train' and 'runs' print it")
    _add_connection(close)
    text = "check a privacy certificate, or fetch that of a closed run again"
    certificate = commands.add_parser(
        "certificate", help=text, description=text, allow_abbrev=False
    )
    for action in _add_certificate(certificate):
        _finish(action)
    budget = _command(commands, "budget", "what is left of the budget")
    _add_connection(budget)
    budget.add_argument("--dataset", metavar="NAME", help="one data set [all that you may use]")
    _add_sample(_command(commands, "sample", "images from a run's newest checkpoint; free"))
    add_evaluate(_command(commands, "evaluate", "train on synthetic images, test on public ones"))
    add_export(_command(commands, "export", "a synthetic set as NPZ, image folder or IDX"))
    text = "fetch a release once, and train on it offline"
    embedding = commands.add_parser("embedding", help=text, description=text, allow_abbrev=False)
    for action in add_embedding(embedding, _add_connection):
        _finish(action)
    text = "move a classifier of public images to a private set without labels"
    adapt = commands.add_parser("adapt", help=text, description=text, allow_abbrev=False)
    for action in add_adapt(adapt, _add_connection):
        _finish(action)
    recipes = _command(commands, "recipes", "list the recipes, or print one")
    recipes.add_argument("name", nargs="?", metavar="NAME", help="print this recipe")
    completion = _command(commands, "completion", "print what makes a shell complete this command")
    completion.add_argument("shell", choices=SHELLS)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    _finish(parser)
    return parser


def _finish(parser: argparse.ArgumentParser) -> None:
    """Add what every command has: an example, and how to print."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES[parser.prog]
    group = parser.add_argument_group("printing")
    group.add_argument("--json", action="store_true", help="print the answer as JSON")
    group.add_argument("--quiet", action="store_true", help="say nothing but problems")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")


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
        help="seconds to wait for the connection [10]",
    )


def _add_train(parser: argparse.ArgumentParser) -> None:
    parser.usage = (  # the whole list is 70 lines, before every message about a mistake
        "%(prog)s --curator HOST:PORT --credentials FILE (--recipe NAME | --resume) --out DIR ..."
    )
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
    parser.usage = "%(prog)s --curator HOST:PORT --credentials FILE --recipe NAME ..."
    _add_connection(parser)
    parser.add_argument("--recipe", required=True, metavar="NAME|FILE.toml")
    question = parser.add_argument_group("question (with both: which noise reaches both?)")
    question.add_argument("--for-steps", type=_count, metavar="N", help="what would N steps cost?")
    question.add_argument("--for-epsilon", type=_positive, metavar="E", help="what would E buy?")
    question.add_argument(
        "--alone",
        action="store_true",
        help="also the tighter epsilon of this run alone; takes seconds",
    )
    table = parser.add_argument_group("table")
    table.add_argument(
        "--over",
        choices=("steps", "epsilon", "noise"),
        default="steps",
        help="what differs from row to row [steps]",
    )
    table.add_argument(
        "--points", type=_points, default=8, metavar="N", help="rows, at most 50 [8]"
    )
    table.add_argument(
        "--plot",
        nargs="?",
        const="-",
        metavar="FILE",
        help="draw the table, as text or to .png, .svg, .pdf or .html",
    )
    add_force(table, "replace the file of --plot")
    add_recipe_flags(parser)


def _add_certificate(
    parser: argparse.ArgumentParser,
) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    text = "check a certificate; asks no curator"
    verify = actions.add_parser("verify", help=text, description=text, allow_abbrev=False)
    verify.add_argument("file", type=Path, metavar="FILE")
    verify.add_argument(
        "--credentials", type=Path, help="also check that the curator of these credentials signed"
    )
    verify.add_argument(
        "--fingerprint",
        metavar="SHA256:...",
        help="also check that the key of this fingerprint signed, as 'curator key' prints it",
    )
    text = "fetch the certificate of a closed run of yours again"
    fetch = actions.add_parser("fetch", help=text, description=text, allow_abbrev=False)
    fetch.add_argument("run_id", metavar="RUN_ID", help="as 'train' printed it")
    fetch.add_argument("--out", type=Path, required=True, metavar="FILE.json")
    add_force(fetch, "replace an existing file")
    _add_connection(fetch)
    return verify, fetch


def _add_sample(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out-of", type=Path, required=True, metavar="RUN_DIR")
    parser.add_argument("--count", type=_count, required=True, metavar="N")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.npz|FILE.png")
    add_force(parser, "replace an existing file")
    parser.add_argument("--seed", type=int, default=0, help="of labels and latents [0]")
    parser.add_argument(
        "--weights", choices=("ema", "generator"), default="ema", help="averaged or last [ema]"
    )
    # accepted like everywhere else, though sampling asks no curator: it is free post-processing
    parser.add_argument("--curator", dest="unused_curator", help=argparse.SUPPRESS)
    parser.add_argument("--credentials", dest="unused_credentials", help=argparse.SUPPRESS)


def _count(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        msg = "must be a whole number, at least 1"
        raise argparse.ArgumentTypeError(msg)
    return value


def _points(text: str) -> int:
    value = _count(text)
    if value > _MOST_POINTS:
        msg = f"must be at most {_MOST_POINTS}"
        raise argparse.ArgumentTypeError(msg)
    return value


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        msg = "must be a number above 0"
        raise argparse.ArgumentTypeError(msg)
    return value


_MOST_POINTS = 50
