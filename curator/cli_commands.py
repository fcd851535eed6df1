"""What each of the steward's commands does."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from curator.bootstrap import create_curator, drain_on_signals
from curator.cli_common import UsageProblem, folder_of, say
from curator.cli_dataset import DATASET_COMMANDS
from curator.cli_explain import explained
from curator.cli_ledger import LEDGER_COMMANDS
from curator.clock import utc_now
from curator.config import CuratorConfig, load_config
from curator.folder import initialise
from curator.ledger.problems import HolderLost
from curator.service.caller import Role
from curator.telemetry.log import configure_logging

_MOST_DAYS = 3650


def _init(arguments: Namespace) -> None:
    folder = initialise(arguments.dir)
    say(f"{folder.root} is ready; configuration in {folder.config}")
    say(f"next: curator dataset add NAME SOURCE --dir {folder.root} --epsilon E --delta D ...")


def _add_analyst(arguments: Namespace) -> None:
    folder = folder_of(arguments)
    _hand_over(arguments, partial(folder.add_analyst, role=Role(arguments.role)))


def _rotate_analyst(arguments: Namespace) -> None:
    _hand_over(arguments, folder_of(arguments).rotate_analyst)


def _hand_over(arguments: Namespace, make: Callable[..., Path]) -> None:
    """Make credentials and say what to do with them.

    Raises:
        UsageProblem: If the name or the number of days is not valid.
    """
    days = arguments.expires_days
    if days is not None and not 0 < days <= _MOST_DAYS:
        msg = f"--expires-days must be above 0 and at most {_MOST_DAYS}"
        raise UsageProblem(msg)
    ends = None if days is None else utc_now() + timedelta(days=days)
    try:
        path = make(arguments.name, arguments.out, ends, certificate=arguments.certificate)
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    say(f"hand {path} to {arguments.name} over a safe channel; it cannot be shown again")


def _revoke_analyst(arguments: Namespace) -> None:
    folder_of(arguments).tokens.revoke(arguments.name)
    say(f"the credentials of {arguments.name} have ended; runs and ledger stay")


def _list_analysts(arguments: Namespace) -> None:
    for caller in folder_of(arguments).tokens.callers():
        ends = "never ends" if caller.expires_at is None else f"ends {caller.expires_at:%Y-%m-%d}"
        shown = "revoked" if caller.proof is None else f"{caller.proof.name.lower()} {ends}"
        say(f"{caller.name}: {caller.role}, {shown}")


def _serve(arguments: Namespace) -> None:
    folder = folder_of(arguments)
    config = _overridden(load_config(folder.config), arguments)
    configure_logging()
    curator = create_curator(folder, config, insecure_loopback=arguments.insecure_loopback)
    drain_on_signals(curator)
    scheme = "http" if arguments.insecure_loopback else "https"
    names = ", ".join(state.registration.name for state in curator.ledger.datasets())
    curator.start()
    say(
        f"ready: grpc {config.grpc.host}:{curator.rpc.port} "
        f"rest {scheme}://{config.rest.host}:{curator.rest.port} "
        f"client certificates: {curator.rpc.certificate_port or 'none'} "
        f"unix socket: {curator.rpc.unix_socket or 'none'} "
        f"data sets: {names or 'none'}"
    )
    try:
        curator.wait()
    except HolderLost:
        msg = (
            "this curator lost its lease on the ledger, so another may have taken its runs over; "
            "nothing was released since. Start it again."
        )
        raise UsageProblem(msg) from None


def _overridden(config: CuratorConfig, arguments: Namespace) -> CuratorConfig:
    """Return the configuration with the command line's ports and addresses.

    Raises:
        UsageProblem: If a port is out of range.
    """
    options = {
        "grpc": {
            "host": arguments.grpc_host,
            "port": arguments.grpc_port,
            "certificate_port": arguments.grpc_certificate_port,
            "unix_socket": arguments.grpc_unix_socket,
            "reflection": arguments.reflection or None,
        },
        "rest": {"host": arguments.rest_host, "port": arguments.rest_port},
    }
    values = config.model_dump()
    for section, changes in options.items():
        values[section] |= {key: value for key, value in changes.items() if value is not None}
    try:
        return CuratorConfig.model_validate(values)
    except ValidationError:
        msg = "ports must be from 0 to 65535"
        raise UsageProblem(msg) from None


def _explain(arguments: Namespace) -> None:
    try:
        lines = list(explained(arguments))
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    for line in lines:
        say(line)


def _audit(arguments: Namespace) -> None:
    from curator.audit.cli import run_audit  # a second to import, for this command alone

    run_audit(arguments)


COMMANDS: dict[str, Callable[[Namespace], None]] = {
    "init": _init,
    "analyst add": _add_analyst,
    "analyst rotate": _rotate_analyst,
    "analyst revoke": _revoke_analyst,
    "analyst list": _list_analysts,
    "serve": _serve,
    "audit": _audit,
    "accountant explain": _explain,
    **DATASET_COMMANDS,
    **LEDGER_COMMANDS,
}
