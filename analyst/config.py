"""The analyst's configuration: how to reach a curator, and what the process answers.

The tree is `Recipe` (what to train, from a TOML file and options) beside `ConnectionConfig` (where,
and with which credentials). A credential is a path; its content is read only by `analyst.client`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from analyst.cli_parser import build_parser
from analyst.cli_suggest import parse_or_suggest
from analyst.recipes import Recipe
from analyst.training.federation.config import MemberConfig
from analyst.training.federation.flags import access_problem, check_one_curator

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

    OK = 0  # done
    FAILED = 1  # a fault of this program, or a certificate that does not hold
    USAGE = 2  # the command line, as argparse says
    RECIPE = 3  # a recipe or an option that changes one
    FILES = 4  # credentials, a checkpoint, a file of images, or what an evaluation needs
    REFUSED = 5  # the curator said no
    BUDGET_EXHAUSTED = 6  # the data set cannot afford what was asked
    UNREACHABLE = 7  # the curator does not answer; a checkpoint was saved if a run was open
    PROTOCOL = 8  # the curator's answer makes no sense: versions differ
    REHEARSAL = 9  # the certificate is of a rehearsal: it holds, and it promises nothing
    UNKNOWN_SIGNER = 10  # the signature holds, and nothing was given that says whose it is
    OUTPUT_LOST = 11  # done, and durable; what it printed could not be written
    INTERRUPTED = 130  # SIGINT or SIGTERM; a checkpoint was saved


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments of one command; a usage error ends the process with its message."""
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete  # only a shell that completes asks for it

        argcomplete.autocomplete(parser)
    arguments = parse_or_suggest(parser, argv)
    problem = access_problem(arguments) if "curator" in arguments else None
    if problem is not None:
        parser.error(problem)
    return arguments


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
