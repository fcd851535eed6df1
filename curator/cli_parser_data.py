"""The steward's commands about data sets and their ledger, as data for argparse."""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

_ADD_HELP = """\
Add a data set: its images and its budget, for ever.

Everything about the data that analysts may know is typed in here and never read off the images:
under add-or-remove even the number of images is private. With --adjacency add-or-remove-one-group
the guarantee is for all images of one person, sizes count groups, and --groups-key and
--max-records-per-group are needed. SOURCE is an .npz file, two IDX files
IMAGES,LABELS (also .gz), a folder with MNIST's file names, sklearn:digits or
sklearn:digits-private.
"""

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - its only name


def add_dataset_commands(commands: Commands) -> None:
    """Add `dataset ...`.

    Args:
        commands: Of the whole program.
    """
    group = commands.add_parser("dataset", help="add data sets and decide about them")
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser(
        "add",
        help="add a data set with its budget",
        description=_ADD_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add.add_argument("name", metavar="NAME")
    add.add_argument("source", metavar="SOURCE")
    directory_option(add)
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
    _decisions(actions)
    listing = actions.add_parser("list", help="list data sets with their public facts")
    directory_option(listing)
    listing.set_defaults(command="dataset list")


def _decisions(actions: Commands) -> None:
    for name, text in (
        ("pause", "take no steps until it is resumed; runs stay open"),
        ("resume", "take steps again"),
        ("retire", "take no steps ever again; runs are closed"),
        ("erase", "retire, and delete the images; the ledger stays"),
    ):
        command = _decision(actions, name, text)
        _reason(command)
        if name == "erase":
            command.add_argument("--confirm", metavar="NAME", help="the name again")
    cap = _decision(actions, "cap", "allow less of the budget, for ever")
    cap.add_argument("--epsilon", type=float, required=True, help="the new cap")
    _reason(cap)
    share = _decision(actions, "share", "give an analyst a cap of its own")
    share.add_argument("analyst", metavar="ANALYST")
    share.add_argument("--epsilon", type=float, required=True, help="the analyst's cap")
    policy = _decision(actions, "policy", "show or change what runs may ask for")
    policy.add_argument("--set", action="append", metavar="RULE=VALUE", help="repeatable")
    policy.add_argument("--clear", action="append", metavar="RULE", help="repeatable")


def _decision(actions: Commands, name: str, text: str) -> argparse.ArgumentParser:
    command = actions.add_parser(name, help=text)
    command.add_argument("name", metavar="NAME")
    directory_option(command)
    command.set_defaults(command=f"dataset {name}")
    return command


def add_budget_command(commands: Commands) -> None:
    """Add `budget`.

    Args:
        commands: Of the whole program.
    """
    budget = commands.add_parser("budget", help="show what is spent and left; works while serving")
    directory_option(budget)
    budget.add_argument("--json", action="store_true", help="print JSON")
    budget.set_defaults(command="budget")


def add_ledger_commands(commands: Commands) -> None:
    """Add `ledger ...`.

    Args:
        commands: Of the whole program.
    """
    group = commands.add_parser("ledger", help="show, export, verify and back up")
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION")
    export = actions.add_parser("export", help="write every entry as JSON lines")
    directory_option(export)
    export.add_argument("--out", type=Path, help="where to write; standard output by default")
    export.set_defaults(command="ledger export")
    verify = actions.add_parser(
        "verify", help="check an export offline: chain, integer costs, a second accountant"
    )
    verify.add_argument("file", type=Path, metavar="EXPORT")
    verify.set_defaults(command="ledger verify")
    show = actions.add_parser("show", help="show budgets, decisions, runs and the head")
    directory_option(show)
    show.set_defaults(command="ledger show")
    backup = actions.add_parser("backup", help="copy the file consistently, also while serving")
    directory_option(backup)
    backup.add_argument("--out", type=Path, required=True, help="where to write the copy")
    backup.set_defaults(command="ledger backup")
    accept = actions.add_parser(
        "accept-restored",
        help="go on with an older copy, counting all that may be missing as spent, for ever",
    )
    directory_option(accept)
    _reason(accept)
    accept.set_defaults(command="ledger accept-restored")


def directory_option(command: argparse.ArgumentParser) -> None:
    """Add the option that names the curator's folder.

    Args:
        command: Gets it.
    """
    command.add_argument("--dir", type=Path, required=True, help="the curator's folder")


def _reason(command: argparse.ArgumentParser) -> None:
    command.add_argument("--reason", required=True, help="kept in the ledger, for the auditor")


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
