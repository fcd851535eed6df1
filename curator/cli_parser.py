"""The steward's commands and options, as data for argparse."""

from __future__ import annotations

import argparse
from importlib import metadata
from pathlib import Path

from curator.audit.names import CANARIES, TARGETS
from curator.cli_examples import EXAMPLES
from curator.cli_parser_data import (
    Commands,
    add_budget_command,
    add_dataset_commands,
    add_ledger_commands,
    directory_option,
    force_option,
)
from curator.cli_parser_plan import add_plan_command
from curator.cli_parser_serve import add_serve_commands

SHELLS = ("bash", "zsh", "fish")

_AUDIT_HELP = """\
Play the distinguishing game: serve two neighbouring data sets of public canary images from
throw-away curators, over TLS and gRPC, and tell them apart by the answers. Prints a lower bound of
epsilon beside the claim; the exit code is not 0 if a bound is above its claim. No private data is
read and no budget is touched. All games together take hours: name a canary and a mechanism.
"""

_DOCTOR_HELP = """\
Look at processor, versions, the bodies that compute with their measured errors and times, clock and
randomness; with --dir also at the folder's permissions, disk, ledger and ports. It changes nothing,
reads nothing private, and works while the curator serves and when the folder is broken. Exit code
0: all is well; 5: something needs attention, and its line says what to do.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="curator",
        description="Hold private images and answer with differentially private gradients.",
    )
    version = f"%(prog)s of weir-dp {metadata.version('weir-dp')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="group", required=True, metavar="COMMAND")
    _init(commands)
    add_dataset_commands(commands)
    _analyst(commands)
    add_serve_commands(commands)
    add_budget_command(commands)
    add_plan_command(commands)
    add_ledger_commands(commands)
    _accountant(commands)
    _audit(commands)
    _doctor(commands)
    _key(commands)
    _completion(commands)
    _finish(parser)
    return parser


def _finish(parser: argparse.ArgumentParser) -> None:
    """Give every command an example, and the two ways to print."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]  # noqa: SLF001 - argparse has no other list
    parser.allow_abbrev = False  # a later option must not change what a script says now
    for command in (one for group in groups for one in group.choices.values()):
        _finish(command)
    if groups:
        return
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES[parser.prog]
    known = parser._option_string_actions  # noqa: SLF001
    if "--json" not in known:
        parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    if "--quiet" not in known:
        parser.add_argument(
            "--quiet", action="store_true", help="print nothing but what was asked, and problems"
        )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")


def _init(commands: Commands) -> None:
    command = commands.add_parser(
        "init", help="make a curator's folder, and a ledger; safe to run again"
    )
    command.add_argument("dir", type=Path, metavar="DIR")
    command.set_defaults(command="init")


def _analyst(commands: Commands) -> None:
    group = commands.add_parser("analyst", help="add and list analysts")
    actions = group.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="write one credentials file to hand over")
    add.add_argument("name", metavar="NAME")
    directory_option(add)
    add.add_argument(
        "--role",
        choices=["analyst", "auditor"],
        default="analyst",
        help="an auditor reads all runs, budgets and the ledger's head, and changes nothing",
    )
    _hand_over(add)
    add.set_defaults(command="analyst add")
    rotate = actions.add_parser("rotate", help="replace credentials; the old ones end at once")
    rotate.add_argument("name", metavar="NAME")
    directory_option(rotate)
    _hand_over(rotate)
    rotate.set_defaults(command="analyst rotate")
    revoke = actions.add_parser("revoke", help="end credentials at once, also while serving")
    revoke.add_argument("name", metavar="NAME")
    directory_option(revoke)
    revoke.set_defaults(command="analyst revoke")
    listing = actions.add_parser("list", help="list callers, their roles and expiry")
    directory_option(listing)
    listing.set_defaults(command="analyst list")
    log = actions.add_parser("log", help="show who was added, rotated and revoked, and by whom")
    directory_option(log)
    log.set_defaults(command="analyst log")


def _key(commands: Commands) -> None:
    key = commands.add_parser("key", help="show the fingerprint of the key that signs certificates")
    directory_option(key)
    key.set_defaults(command="key")


def _completion(commands: Commands) -> None:
    completion = commands.add_parser(
        "completion", help="print what makes a shell complete this command"
    )
    completion.add_argument("shell", choices=SHELLS)
    completion.set_defaults(command="completion")


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
    explain.add_argument("--dimension", type=int, help="of dp-swd's rows: pixels and classes")
    explain.add_argument("--capacity", type=int, help="slots of the data set, where SPEC has none")
    explain.add_argument("--cross-check", action="store_true", help="ask opacus too")
    explain.set_defaults(command="accountant explain")


def _audit(commands: Commands) -> None:
    audit = commands.add_parser(
        "audit",
        help="attack throw-away curators and compare what leaks with what is claimed",
        description=_AUDIT_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    audit.add_argument(
        "--trials", type=int, default=2000, help="on each data set, at least 20 (%(default)s)"
    )
    audit.add_argument(
        "--canary", nargs="+", choices=CANARIES, metavar="NAME", help=f"of {', '.join(CANARIES)}"
    )
    audit.add_argument(
        "--mechanism", nargs="+", choices=TARGETS, metavar="NAME", help=f"of {', '.join(TARGETS)}"
    )
    audit.add_argument("--noise-multiplier", type=float, default=1.0, help="%(default)s")
    audit.add_argument("--delta", type=float, default=1e-5, help="of the claim (%(default)s)")
    audit.set_defaults(command="audit")


def _doctor(commands: Commands) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="say how this machine and a curator's folder are, and what to do",
        description=_DOCTOR_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument(
        "--dir", type=Path, help="the curator's folder (without it, the machine alone)"
    )
    doctor.set_defaults(command="doctor")


def _hand_over(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", type=Path, help="where to write the credentials file")
    force_option(command)
    command.add_argument(
        "--certificate",
        action="store_true",
        help="a client certificate of the curator's own authority instead of a token; its holder "
        "connects to the port of --grpc-certificate-port",
    )
    command.add_argument(
        "--expires-days",
        type=float,
        metavar="DAYS",
        help="when they end (default: a token never, a certificate in a year)",
    )
