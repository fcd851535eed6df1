"""The steward's commands and options, as data for argparse."""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

from curator.audit.canaries import CANARIES
from curator.audit.target import TARGETS

_ADD_HELP = """\
Add a data set: its images and its budget, for ever.

Everything about the data that analysts may know is typed in here and never read off the images:
under add-or-remove even the number of images is private. With --adjacency add-or-remove-one-group
the guarantee is for all images of one person, sizes count groups, and --groups-key and
--max-records-per-group are needed. SOURCE is an .npz file, two IDX files
IMAGES,LABELS (also .gz), a folder with MNIST's file names, sklearn:digits or
sklearn:digits-private.
"""

_AUDIT_HELP = """\
Play the distinguishing game: serve two neighbouring data sets of public canary images from
throw-away curators, over TLS and gRPC, and tell them apart by the answers. Prints a lower bound of
epsilon beside the claim; the exit code is not 0 if a bound is above its claim. No private data is
read and no budget is touched; all games take some minutes.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="curator",
        description="Hold private images and answer with differentially private gradients.",
    )
    commands = parser.add_subparsers(dest="group", required=True, metavar="COMMAND")
    _init(commands)
    _dataset(commands)
    _analyst(commands)
    _serve(commands)
    _budget(commands)
    _ledger(commands)
    _accountant(commands)
    _audit(commands)
    return parser


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - its only name


def _init(commands: Commands) -> None:
    command = commands.add_parser("init", help="make a curator's folder; safe to run again")
    command.add_argument("dir", type=Path, metavar="DIR")
    command.set_defaults(command="init")


def _dataset(commands: Commands) -> None:
    group = commands.add_parser("dataset", help="add and list data sets")
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser(
        "add",
        help="add a data set with its budget",
        description=_ADD_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add.add_argument("name", metavar="NAME")
    add.add_argument("source", metavar="SOURCE")
    _directory(add)
    needed = add.add_argument_group("budget and neighbouring relation (no defaults)")
    needed.add_argument("--epsilon", type=float, required=True, help="cap over all analysts")
    needed.add_argument("--delta", type=float, required=True, help="below 1 / number of people")
    needed.add_argument(
        "--adjacency",
        required=True,
        choices=["add-or-remove-one-record", "add-or-remove-one-group"],
        help="what two neighbouring data sets differ by; a group is all records of one person",
    )
    facts = add.add_argument_group("public facts (no defaults)")
    facts.add_argument("--classes", required=True, help="names by label, such as 0,1,2 or cat,dog")
    facts.add_argument("--image-shape", required=True, metavar="CxHxW", help="such as 1x28x28")
    facts.add_argument("--nominal-size", type=int, required=True, help="published size, in units")
    facts.add_argument("--max-size", type=int, required=True, help="upper bound of the size")
    facts.add_argument(
        "--max-records-per-group",
        type=int,
        metavar="K",
        help="of each group the first K records are kept; needed with one-group, where sizes "
        "and Q count groups and the capacity counts records",
    )
    facts.add_argument(
        "--sampling-rate",
        type=_rate,
        required=True,
        metavar="Q",
        help="largest probability of a unit in one step, such as 50/60000 or 0.001",
    )
    facts.add_argument(
        "--capacity",
        type=int,
        required=True,
        help="rows that a private batch is padded to; about q n + 8 sqrt(q n)",
    )
    reading = add.add_argument_group("reading the source")
    reading.add_argument("--max-level", type=int, default=255, help="level of a white pixel")
    reading.add_argument("--images-key", help="name of the image array in an .npz file")
    reading.add_argument("--labels-key", help="name of the label array in an .npz file")
    reading.add_argument(
        "--groups-key", help="name of an .npz array that names each image's group (one-group only)"
    )
    add.set_defaults(command="dataset add")
    listing = actions.add_parser("list", help="list data sets with their public facts")
    _directory(listing)
    listing.set_defaults(command="dataset list")


def _analyst(commands: Commands) -> None:
    group = commands.add_parser("analyst", help="add and list analysts")
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="write one credentials file to hand over")
    add.add_argument("name", metavar="NAME")
    _directory(add)
    add.add_argument("--out", type=Path, help="where to write the credentials file")
    _expiry(add)
    add.set_defaults(command="analyst add")
    rotate = actions.add_parser("rotate", help="replace credentials; the old ones end at once")
    rotate.add_argument("name", metavar="NAME")
    _directory(rotate)
    rotate.add_argument("--out", type=Path, help="where to write the credentials file")
    _expiry(rotate)
    rotate.set_defaults(command="analyst rotate")
    revoke = actions.add_parser("revoke", help="end credentials at once, also while serving")
    revoke.add_argument("name", metavar="NAME")
    _directory(revoke)
    revoke.set_defaults(command="analyst revoke")
    listing = actions.add_parser("list", help="list callers, their roles and expiry")
    _directory(listing)
    listing.set_defaults(command="analyst list")


def _serve(commands: Commands) -> None:
    serve = commands.add_parser("serve", help="answer analysts until SIGTERM")
    _directory(serve)
    serve.add_argument("--grpc-host", help="address for gRPC (default: the configuration)")
    serve.add_argument("--grpc-port", type=int, help="0 takes a free port")
    serve.add_argument("--rest-host", help="address for REST (default: the configuration)")
    serve.add_argument("--rest-port", type=int, help="0 takes a free port")
    serve.add_argument(
        "--insecure-loopback",
        action="store_true",
        help="serve without TLS, on loopback addresses only, for development",
    )
    serve.add_argument("--reflection", action="store_true", help="let tools list the methods")
    serve.set_defaults(command="serve")


def _budget(commands: Commands) -> None:
    budget = commands.add_parser("budget", help="show what is spent and left; works while serving")
    _directory(budget)
    budget.add_argument("--json", action="store_true", help="print JSON")
    budget.set_defaults(command="budget")


def _ledger(commands: Commands) -> None:
    group = commands.add_parser("ledger", help="export and verify the ledger")
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION")
    export = actions.add_parser("export", help="write every entry as JSON lines")
    _directory(export)
    export.add_argument("--out", type=Path, help="where to write; standard output by default")
    export.set_defaults(command="ledger export")
    verify = actions.add_parser(
        "verify", help="check an export offline: chain, integer costs, a second accountant"
    )
    verify.add_argument("file", type=Path, metavar="EXPORT")
    verify.set_defaults(command="ledger verify")


def _accountant(commands: Commands) -> None:
    group = commands.add_parser("accountant", help="explain what a run costs; needs no folder")
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION")
    explain = actions.add_parser("explain", help="show the chain from a description to epsilon")
    explain.add_argument(
        "spec", metavar="SPEC", help="an analyst's recipe, a TOML or JSON file, or inline JSON"
    )
    explain.add_argument("--epsilon", type=float, help="cap of the data set")
    explain.add_argument("--delta", type=float, help="delta of the data set")
    explain.add_argument("--steps", type=int, help="declared steps, instead of those in SPEC")
    explain.add_argument("--nominal-size", type=int, help="size that a batch size refers to")
    explain.add_argument("--cross-check", action="store_true", help="ask opacus too")
    explain.add_argument("--json", action="store_true", help="print JSON")
    explain.set_defaults(command="accountant explain")


def _audit(commands: Commands) -> None:
    audit = commands.add_parser(
        "audit",
        help="attack throw-away curators and compare what leaks with what is claimed",
        description=_AUDIT_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    audit.add_argument(
        "--trials", type=int, default=2000, help="releases from each data set (%(default)s)"
    )
    audit.add_argument(
        "--canary", nargs="+", choices=CANARIES, metavar="NAME", help=f"of {', '.join(CANARIES)}"
    )
    audit.add_argument(
        "--mechanism", nargs="+", choices=TARGETS, metavar="NAME", help=f"of {', '.join(TARGETS)}"
    )
    audit.add_argument("--noise-multiplier", type=float, default=1.0, help="%(default)s")
    audit.add_argument("--delta", type=float, default=1e-5, help="of the claim (%(default)s)")
    audit.add_argument("--json", action="store_true", help="print JSON")
    audit.set_defaults(command="audit")


def _directory(command: argparse.ArgumentParser) -> None:
    command.add_argument("--dir", type=Path, required=True, help="the curator's folder")


def _expiry(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--expires-days", type=float, metavar="DAYS", help="when they end (default: never)"
    )


def _rate(text: str) -> float:
    """Read a probability, also as a fraction.

    Raises:
        argparse.ArgumentTypeError: If it is not a number.
    """
    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError):
        msg = f"'{text}' is not a number or a fraction such as 50/60000"
        raise argparse.ArgumentTypeError(msg) from None
