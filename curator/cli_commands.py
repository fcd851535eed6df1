"""What each of the steward's commands does; what is slow to import is imported where it is used."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from shlex import quote

from curator.cli_common import Screen, UsageProblem, check_out, folder_of, say
from curator.clock import utc_now
from curator.config import load_config
from curator.folder import initialise
from curator.identity.signing import fingerprint_of
from curator.service.caller import Role

_MOST_DAYS = 3650
_SHOWN_FIRST = ("time", "what", "whom")


def _init(arguments: Namespace) -> None:
    folder = initialise(arguments.dir)
    config = load_config(folder.config)
    if config.database:
        from curator.open_ledger import make_database_tables  # SQLAlchemy

        make_database_tables(folder, config)
    screen = Screen.of(arguments)
    screen.tell(
        f"{folder.root} is ready; configuration in {folder.config}",
        f"next: curator dataset add NAME SOURCE --dir {quote(str(folder.root))} "
        "--epsilon E --delta D ...",
    )
    screen.answer({"dir": str(folder.root), "config": str(folder.config)})


def _add_analyst(arguments: Namespace) -> None:
    folder = folder_of(arguments)
    make = partial(folder.add_analyst, role=Role(arguments.role))
    _hand_over(arguments, folder.tokens.check_new, make)


def _rotate_analyst(arguments: Namespace) -> None:
    folder = folder_of(arguments)
    _hand_over(arguments, folder.tokens.check_known, folder.rotate_analyst)


def _hand_over(
    arguments: Namespace, check: Callable[[str], None], make: Callable[..., Path]
) -> None:
    """Make credentials and say what to do with them.

    Raises:
        UsageProblem: If the name or the number of days is not valid.
    """
    days = arguments.expires_days
    if days is not None and not 0 < days <= _MOST_DAYS:
        msg = f"--expires-days must be above 0 and at most {_MOST_DAYS}"
        raise UsageProblem(msg)
    try:
        check(arguments.name)  # first: another --out would not help
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    check_out(arguments)
    ends = None if days is None else utc_now() + timedelta(days=days)
    make = partial(make, certificate=arguments.certificate, force=arguments.force)
    try:
        path = make(arguments.name, arguments.out, ends)
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    screen = Screen.of(arguments)
    screen.tell(
        f"hand {path} to {arguments.name} over a safe channel, then remove it here; it cannot be "
        "shown again, and 'curator doctor' finds what was left in the folder"
    )
    screen.answer({"name": arguments.name, "credentials": str(path)})


def _revoke_analyst(arguments: Namespace) -> None:
    name, screen = arguments.name, Screen.of(arguments)
    is_new = folder_of(arguments).tokens.revoke(name)
    screen.tell(
        f"the credentials of {name} are no longer valid; runs and ledger are unchanged"
        if is_new
        else f"{name} was revoked before: nothing was changed"
    )
    screen.answer({"revoked": name, "changed": is_new})


def _list_analysts(arguments: Namespace) -> None:
    screen, answers = Screen.of(arguments), []
    for caller in folder_of(arguments).tokens.callers():
        ends = "never ends" if caller.expires_at is None else f"ends {caller.expires_at:%Y-%m-%d}"
        shown = "revoked" if caller.proof is None else f"{caller.proof.name.lower()} {ends}"
        screen.show(f"{caller.name}: {caller.role}, {shown}")
        answers.append(
            {
                "name": caller.name,
                "role": str(caller.role),
                "proof": None if caller.proof is None else caller.proof.name.lower(),
                "expires_at": None if caller.expires_at is None else caller.expires_at.isoformat(),
            }
        )
    screen.answer(answers)


def _access_log(arguments: Namespace) -> None:
    """Print who was added, rotated and revoked, when and by whom."""
    screen, answers = Screen.of(arguments), []
    for number, line in enumerate(folder_of(arguments).access_log.lines(), start=1):
        if line is None:
            screen.show(f"line {number} is damaged: a command was cut short, or the file changed")
        else:
            facts = ", ".join(
                f"{name} {value}"
                for name, value in line.items()
                if name not in _SHOWN_FIRST and value is not None
            )
            screen.show(f"{line.get('time')} {line.get('what')} {line.get('whom')}: {facts}")
        answers.append({"damaged": line is None} | (line or {}))
    screen.answer(answers)


def _key(arguments: Namespace) -> None:
    """Print what an auditor compares: the fingerprint of the key that signs certificates."""
    fingerprint = fingerprint_of(folder_of(arguments).signing_key.public_key())
    screen = Screen.of(arguments)
    screen.show(
        f"certificates of this curator are signed by {fingerprint}",
        "an auditor checks with: analyst certificate verify FILE --fingerprint " + fingerprint,
    )
    screen.answer({"fingerprint": fingerprint})


def _explain(arguments: Namespace) -> None:
    from curator.cli_explain import explained  # the accountants

    try:
        lines = list(explained(arguments))
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    for line in lines:
        say(line)


def _audit(arguments: Namespace) -> None:
    from curator.audit.cli import run_audit  # a second to import, for this command alone

    run_audit(arguments)


def _completion(arguments: Namespace) -> None:
    from argcomplete.shell_integration import shellcode  # only this command prints it

    sys.stdout.write(shellcode(["curator"], shell=arguments.shell))


SMALL_COMMANDS: dict[str, Callable[[Namespace], None]] = {
    "init": _init,
    "analyst add": _add_analyst,
    "analyst rotate": _rotate_analyst,
    "analyst revoke": _revoke_analyst,
    "analyst list": _list_analysts,
    "analyst log": _access_log,
    "key": _key,
    "audit": _audit,
    "accountant explain": _explain,
    "completion": _completion,
}


def command(name: str) -> Callable[[Namespace], None]:
    """Return what carries a command out, importing no more than it needs.

    Args:
        name: As the parser sets it, such as 'dataset add'.
    """
    match name.split()[0]:
        case "serve" | "rehearse":
            from curator.cli_serve import SERVE_COMMANDS

            return SERVE_COMMANDS[name]
        case "dataset":
            from curator.cli_dataset import DATASET_COMMANDS

            return DATASET_COMMANDS[name]
        case "plan":
            from curator.cli_plan import PLAN_COMMANDS

            return PLAN_COMMANDS[name]
        case "budget" | "ledger":
            from curator.cli_ledger import LEDGER_COMMANDS

            return LEDGER_COMMANDS[name]
        case "doctor":
            from curator.cli_doctor import DOCTOR_COMMANDS

            return DOCTOR_COMMANDS[name]
        case _:
            return SMALL_COMMANDS[name]
