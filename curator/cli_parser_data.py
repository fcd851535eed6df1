"""The steward's commands about data sets and their ledger, as data for argparse."""

from __future__ import annotations

import argparse
from pathlib import Path

from curator.cli_parser_source import Commands as Commands
from curator.cli_parser_source import add_source_commands


def add_dataset_commands(commands: Commands) -> None:
    """Add `dataset ...`.

    Args:
        commands: Of the whole program.
    """
    group = commands.add_parser("dataset", help="add data sets and decide about them")
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION")
    add_source_commands(actions)
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
        if name in {"retire", "erase"}:
            _confirm(command, "the name again")
    cap = _decision(actions, "cap", "allow less of the budget, for ever")
    cap.add_argument("--epsilon", type=float, required=True, help="the new cap")
    _reason(cap)
    _confirm(cap, "the name again; needed where no more than what is spent or reserved is left")
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
    force_option(export)
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
    force_option(backup)
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


def force_option(command: argparse.ArgumentParser) -> None:
    """Add the option that lets a command replace a file that exists.

    Args:
        command: Gets it.
    """
    command.add_argument("--force", action="store_true", help="replace the file in --out")


def _confirm(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument("--confirm", metavar="NAME", help=text)


def _reason(command: argparse.ArgumentParser) -> None:
    command.add_argument("--reason", required=True, help="kept in the ledger, for the auditor")
