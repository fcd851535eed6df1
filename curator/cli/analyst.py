"""The commands about callers: who may ask, until when, and who decided it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from curator.cli.command import Dir, Force, Task, UsageProblem, check_out, command, opened
from curator.cli.options import Group, argument, flag, option

if TYPE_CHECKING:
    from curator.folder import CuratorFolder

app = typer.Typer(name="analyst", cls=Group, help="Add and list analysts.")

Name = Annotated[str, argument("NAME", "Of the analyst.")]
_MOST_DAYS = 3650
_SHOWN_FIRST = ("time", "what", "whom")


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """What is handed over."""

    out: Path | None = option("Where to write the credentials file.", "FILE")
    force: Force = False
    certificate: bool = flag(
        "--certificate",
        "A client certificate of the curator's own authority instead of a token; its "
        "holder connects to the port of --grpc-certificate-port.",
    )
    expires_days: float | None = option(
        "When they end (default: a token never, a certificate in a year).", "DAYS"
    )


@command(app, "analyst add alice --dir /srv/weir --expires-days 90")
def add(
    task: Task,
    *,
    name: Name,
    folder: Dir,
    role: Literal["analyst", "auditor"] = option(
        "An auditor reads all runs, budgets and the ledger's head, and changes nothing.",
        default="analyst",
    ),
    credentials: Credentials,
) -> None:
    """Write one credentials file to hand over."""
    from curator.service.caller import Role

    found = opened(folder)
    _check(found.tokens.check_new, name)
    make = partial(found.add_analyst, role=Role(role))
    _hand_over(task, found, name, credentials, make)


@command(app, "analyst rotate alice --dir /srv/weir")
def rotate(task: Task, *, name: Name, folder: Dir, credentials: Credentials) -> None:
    """Replace credentials; the old ones end at once."""
    found = opened(folder)
    _check(found.tokens.check_known, name)
    _hand_over(task, found, name, credentials, found.rotate_analyst)


def _check(allowed: Callable[[str], None], name: str) -> None:
    """Check a name before anything else: another --out would not help.

    Raises:
        UsageProblem: If it is not valid.
    """
    try:
        allowed(name)
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None


def _hand_over(
    task: Task,
    folder: CuratorFolder,
    name: str,
    credentials: Credentials,
    make: Callable[..., Path],
) -> None:
    """Make credentials and say what to do with them.

    Raises:
        UsageProblem: If the number of days is not valid.
    """
    from curator.clock import utc_now

    days, out = credentials.expires_days, credentials.out
    if days is not None and not 0 < days <= _MOST_DAYS:
        msg = f"--expires-days must be above 0 and at most {_MOST_DAYS}"
        raise UsageProblem(msg)
    check_out(folder, out, force=credentials.force)
    try:
        ends = None if days is None else utc_now() + timedelta(days=days)
        path = make(name, out, ends, certificate=credentials.certificate, force=credentials.force)
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    found = "finds it here until then" if out is None else "looks in the curator's folder only"
    task.screen.tell(
        f"hand {path} to {name} over a safe channel, then remove it here; it cannot be "
        f"shown again, and 'curator doctor' {found}"
    )
    task.screen.answer({"name": name, "credentials": str(path)})


@command(app, "analyst revoke alice --dir /srv/weir")
def revoke(task: Task, *, name: Name, folder: Dir) -> None:
    """End credentials at once, also while serving."""
    is_new = opened(folder).tokens.revoke(name)
    task.screen.tell(
        f"the credentials of {name} are no longer valid; runs and ledger are unchanged"
        if is_new
        else f"{name} was revoked before: nothing was changed"
    )
    task.screen.answer({"revoked": name, "changed": is_new})


@command(app, "analyst list --dir /srv/weir", name="list", reads=True)
def list_all(task: Task, *, folder: Dir) -> None:
    """List callers, their roles and expiry."""
    answers = []
    for caller in opened(folder).tokens.callers():
        ends = "never ends" if caller.expires_at is None else f"ends {caller.expires_at:%Y-%m-%d}"
        shown = "revoked" if caller.proof is None else f"{caller.proof.name.lower()} {ends}"
        task.screen.show(f"{caller.name}: {caller.role}, {shown}")
        answers.append(
            {
                "name": caller.name,
                "role": str(caller.role),
                "proof": None if caller.proof is None else caller.proof.name.lower(),
                "expires_at": None if caller.expires_at is None else caller.expires_at.isoformat(),
            }
        )
    task.screen.answer(answers)


@command(app, "analyst log --dir /srv/weir")
def log(task: Task, *, folder: Dir) -> None:
    """Show who was added, rotated and revoked, when and by whom."""
    answers = []
    for number, line in enumerate(opened(folder).access_log.lines(), start=1):
        if line is None:
            task.screen.show(
                f"line {number} is damaged: a command was cut short, or the file changed"
            )
        else:
            facts = ", ".join(
                f"{name} {value}"
                for name, value in line.items()
                if name not in _SHOWN_FIRST and value is not None
            )
            task.screen.show(f"{line.get('time')} {line.get('what')} {line.get('whom')}: {facts}")
        answers.append({"damaged": line is None} | (line or {}))
    task.screen.answer(answers)
