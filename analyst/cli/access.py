"""How a command reaches one curator, or several: named on the command line, or in one file."""

from __future__ import annotations

import shlex
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import typer

from analyst.cli.options import flag, option
from analyst.client.address import address_problem
from analyst.errors import FederationError
from analyst.screen import Screen
from analyst.training.federation.rounds import Combine, OnLoss

if TYPE_CHECKING:
    from analyst.cli.command import Task
    from analyst.training.federation.config import FederationConfig, MemberConfig
    from analyst.training.federation.members import Member
    from analyst.training.run_source import Curator

_CLIENT_PATIENCE_S = 3.0  # longer outages are the training loop's: it listens to signals


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionConfig:
    """How to reach one curator."""

    target: str  # HOST:PORT, unix:/path or local:/path
    credentials: Path | None
    insecure_loopback: bool
    timeout_s: float


def positive(value: float | None) -> float | None:
    """Return a number above 0.

    Raises:
        BadParameter: If it is not.
    """
    if value is not None and not 0 < value < float("inf"):
        message = "give a number above 0"
        raise typer.BadParameter(message)
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """Curators and credentials, as they are typed."""

    SECTION: ClassVar = "Curator"

    curator: list[str] | None = option(
        "Its address; repeat it for several curators.", "HOST:PORT|unix:/PATH|local:/PATH"
    )
    federation: Path | None = option("Or a file that lists several.", "FILE.toml")
    credentials: list[Path] | None = option(
        "From the steward; for several curators one each, in their order.", "FILE"
    )
    insecure_loopback: bool = flag(
        "--insecure-loopback", "No TLS; only to this machine, for trials."
    )
    timeout: float = option(
        "Seconds to wait for the connection.", "S", callback=positive, default=10.0
    )

    def __post_init__(self) -> None:
        """Check that addresses and credentials go together.

        Raises:
            ValueError: If they do not.
        """
        if (problem := self._problem()) is not None:
            raise ValueError(problem)

    def _problem(self) -> str | None:
        curators, credentials = self.curator or [], self.credentials or []
        if bool(curators) == (self.federation is not None):
            return "give either --curator HOST:PORT or --federation FILE.toml"
        for address in curators:
            if problem := address_problem(address):
                return f"--curator {address}: {problem}"
        if self.federation is not None:
            return "--federation names the credentials in its file" if credentials else None
        if len(credentials) == len(curators) or (self.insecure_loopback and not credentials):
            return None
        if not credentials:
            return "give --credentials FILE, or --insecure-loopback for a trial on this machine"
        return f"give --credentials once for each of {len(curators)} curators, in the same order"

    def one(self) -> ConnectionConfig:
        """Return how to reach the one curator that is named.

        Raises:
            FederationError: If several are.
        """
        if self.curator is None or len(self.curator) > 1:
            message = "this takes one curator"
            raise FederationError(message, "Ask each in turn, with --curator and --credentials.")
        return ConnectionConfig(
            target=self.curator[0],
            credentials=self.credentials[0] if self.credentials else None,
            insecure_loopback=self.insecure_loopback,
            timeout_s=self.timeout,
        )

    def member(self, member: MemberConfig) -> ConnectionConfig:
        """Return how to reach one of several curators."""
        return ConnectionConfig(
            target=member.address,
            credentials=member.credentials,
            insecure_loopback=member.insecure_loopback,
            timeout_s=self.timeout,
        )

    def several(self, rule: RuleOptions | None = None) -> FederationConfig | None:
        """Return the curators if there are several; what is typed wins over what the file says."""
        if self.federation is None and len(self.curator or ()) <= 1:
            return None
        from analyst.training.federation.config import (  # pydantic
            FederationConfig,
            MemberConfig,
            check_members,
            load_federation,
        )

        rule = rule or RuleOptions()
        if self.federation is not None:
            config = load_federation(self.federation)
        else:
            curators = self.curator or []
            nobody: list[Path | None] = [None] * len(curators)
            files = [*self.credentials] if self.credentials else nobody
            members = tuple(
                MemberConfig(
                    address=address, credentials=file, insecure_loopback=self.insecure_loopback
                )
                for address, file in zip(curators, files, strict=True)
            )
            check_members(members)
            config = FederationConfig(curator=members)
        return FederationConfig(
            curator=config.curator,
            combine=rule.combine or config.combine,
            on_loss=rule.on_loss or config.on_loss,
        )

    def words(self, rule: RuleOptions | None = None) -> str:
        """Return the options that reach the same curators again, as they are typed."""
        if self.federation is not None:
            words = ["--federation", str(self.federation)]
        else:
            words = [word for address in self.curator or [] for word in ("--curator", address)]
            for file in self.credentials or []:
                words += ["--credentials", str(file)]
        if self.insecure_loopback:
            words.append("--insecure-loopback")
        if rule is not None and rule.on_loss:
            words += ["--on-loss", rule.on_loss.value]
        return shlex.join(words)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleOptions:
    """How several curators go together."""

    SECTION: ClassVar = "Several curators"

    combine: Combine | None = option(
        "Average all gradients, ask one in turn, or add embeddings [mean; sum for embeddings]."
    )
    on_loss: OnLoss | None = option(
        "When one is lost or used up: end, or go on with the others [stop]."
    )


def connect(config: ConnectionConfig, screen: Screen) -> AbstractContextManager[Curator]:
    """Reach a curator by gRPC."""
    from analyst.client import connect as reach  # gRPC

    return reach(
        config.target,
        credentials=config.credentials,
        insecure_loopback=config.insecure_loopback,
        timeout=config.timeout_s,
        patience=_CLIENT_PATIENCE_S,
        say=screen.say,
    )


def members(
    task: Task, access: Access, several: FederationConfig
) -> AbstractContextManager[list[Member]]:
    """Connect to all; one that does not answer is lost, and the others are asked."""
    from analyst.training.federation.members import connected

    return connected(
        several.curator,
        lambda one: task.connect(access.member(one)),
        tolerant=True,
        say=task.screen.warn,
    )
