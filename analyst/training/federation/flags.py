"""The options of several curators: named on the command line, or in one file."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from analyst.client.address import address_problem
from analyst.errors import FederationError
from analyst.training.federation.config import (
    FederationConfig,
    MemberConfig,
    check_members,
    load_federation,
)
from analyst.training.federation.rounds import Combine, OnLoss

SEVERAL_COMMANDS = ("train", "plan", "budget", "runs", "close")
"""Those that take several curators."""


def add_curators(group: argparse._ArgumentGroup) -> None:
    """Add how to name curators."""
    where = group.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--curator",
        action="append",
        metavar="HOST:PORT|unix:/PATH",
        help="its address; repeat it for several curators",
    )
    where.add_argument(
        "--federation", type=Path, metavar="FILE.toml", help="or a file that lists several"
    )
    group.add_argument(
        "--credentials",
        type=Path,
        action="append",
        metavar="FILE",
        help="from the steward; for several curators one each, in the same order",
    )


def add_rule(parser: argparse.ArgumentParser) -> None:
    """Add how several curators go together."""
    group = parser.add_argument_group("several curators")
    group.add_argument(
        "--combine",
        choices=[one.value for one in Combine],
        help="average all gradients, ask one in turn, or add embeddings [mean; sum for embeddings]",
    )
    group.add_argument(
        "--on-loss",
        choices=[one.value for one in OnLoss],
        help="when one is lost or used up: end, or go on with the others [stop]",
    )


def access_problem(arguments: argparse.Namespace) -> str | None:
    """Return what is wrong with addresses and credentials of a command line; None if nothing is."""
    curators, credentials = arguments.curator or [], arguments.credentials or []
    for address in curators:
        if problem := address_problem(address):
            return f"--curator {address}: {problem}"
    if arguments.federation is not None:
        return "--federation names the credentials in its file" if credentials else None
    if len(credentials) == len(curators) or (arguments.insecure_loopback and not credentials):
        return None
    if not credentials:
        return "give --credentials FILE, or --insecure-loopback for a trial on this machine"
    return f"give --credentials once for each of {len(curators)} curators, in the same order"


def federation_config(arguments: argparse.Namespace) -> FederationConfig | None:
    """Return the several curators of a command line, or None if it names one.

    Returns:
        The federation; options of the command line win over the file.
    """
    if arguments.federation is not None:
        config = load_federation(arguments.federation)
    elif len(arguments.curator) > 1:
        files = arguments.credentials or [None] * len(arguments.curator)
        insecure = arguments.insecure_loopback
        members = tuple(
            MemberConfig(address=address, credentials=file, insecure_loopback=insecure)
            for address, file in zip(arguments.curator, files, strict=True)
        )
        check_members(members)
        config = FederationConfig(curator=members)
    else:
        return None
    combine, on_loss = getattr(arguments, "combine", None), getattr(arguments, "on_loss", None)
    return FederationConfig(
        curator=config.curator,
        combine=Combine(combine) if combine else config.combine,
        on_loss=OnLoss(on_loss) if on_loss else config.on_loss,
    )


def check_one_curator(arguments: argparse.Namespace) -> None:
    """Check that a command that takes one curator was given one.

    Raises:
        FederationError: If it names several.
    """
    if arguments.federation is not None or len(arguments.curator) > 1:
        message = "this takes one curator"
        raise FederationError(message, "Ask each in turn, with --curator and --credentials.")


def access_words(arguments: argparse.Namespace) -> str:
    """Return the options that reach the same curators again, as they are typed."""
    if arguments.federation is not None:
        words = ["--federation", str(arguments.federation)]
    else:
        words = [word for address in arguments.curator for word in ("--curator", address)]
        for file in arguments.credentials or []:
            words += ["--credentials", str(file)]
    if arguments.insecure_loopback:
        words.append("--insecure-loopback")
    if getattr(arguments, "on_loss", None):
        words += ["--on-loss", arguments.on_loss]
    return shlex.join(words)
