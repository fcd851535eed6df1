"""The commands that serve: real data sets, or a rehearsal."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING

from pydantic import ValidationError

from curator.cli_common import Screen, UsageProblem, folder_of, say
from curator.cli_progress import progress_for
from curator.config import CuratorConfig, load_config
from curator.folder import CuratorFolder
from curator.identity.listen import address, is_every_address, reachable
from curator.ledger.problems import HolderLost
from curator.privacy.facts import is_rehearsal
from curator.service.rehearsal import BANNER
from curator.telemetry.log import configure_logging
from curator.tune_process import tune_process

if TYPE_CHECKING:
    from curator.bootstrap import Curator


def _serve(arguments: Namespace) -> None:
    folder = folder_of(arguments)
    _run(arguments, folder, load_config(folder.config))


def _rehearse(arguments: Namespace) -> None:
    """Serve public data without a limit, from a folder of its own."""
    from curator.cli_source import source_options
    from curator.rehearse import Rehearsal, prepare_rehearsal  # torch, seconds

    screen = Screen.of(arguments)
    rehearsal = Rehearsal(
        name=arguments.name,
        source=arguments.source,
        is_public=arguments.source_is_public,
        options=source_options(arguments),
        nominal_size=arguments.nominal_size,
        sampling_rate=arguments.sampling_rate,
        capacity=arguments.capacity,
        delta=arguments.delta,
        max_level=arguments.max_level,
    )
    prepared = prepare_rehearsal(arguments.dir, rehearsal, progress_for(arguments))

    def introduce(port: int) -> None:
        tls = " --insecure-loopback" if arguments.insecure_loopback else ""
        credentials = quote(str(prepared.credentials))
        screen.tell(
            BANNER,
            f"data set {prepared.dataset}: debug with",
            f"  analyst train --curator localhost:{port} --credentials {credentials} \\",
            f"      --dataset {prepared.dataset}{tls} --recipe NAME --out DIR",
            BANNER,
        )

    _run(arguments, prepared.folder, load_config(prepared.folder.config), introduce)


def _run(
    arguments: Namespace,
    folder: CuratorFolder,
    config: CuratorConfig,
    introduce: Callable[[int], None] = lambda _: None,
) -> None:
    """Serve until a signal comes.

    Args:
        arguments: Of the command line.
        folder: What to serve.
        config: How.
        introduce: Told the port as soon as it answers.

    Raises:
        UsageProblem: If the ledger's lease was lost.
    """
    tune_process()
    from curator.bootstrap import create_curator, drain_on_signals  # torch, seconds

    config = _overridden(config, arguments)
    configure_logging()
    curator = create_curator(folder, config, insecure_loopback=arguments.insecure_loopback)
    drain_on_signals(curator)
    curator.start()
    introduce(curator.rpc.port)
    _say_ready(arguments, config, curator)
    try:
        curator.wait()
    except HolderLost:
        msg = (
            "this curator lost its lease on the ledger, so another may have taken its runs over; "
            "nothing was released since. Start it again."
        )
        raise UsageProblem(msg) from None


def _say_ready(arguments: Namespace, config: CuratorConfig, curator: Curator) -> None:
    """Print one line or one object as soon as it answers, also when quiet: scripts wait for it."""
    scheme = "http" if arguments.insecure_loopback else "https"
    status = {state.registration.name: state.status for state in curator.ledger.datasets()}
    names = [f"{name} ({is_now})" if is_now.is_final else name for name, is_now in status.items()]
    rehearsal = any(map(is_rehearsal, status))
    health_port = None if curator.health is None else curator.health.port
    known_as = config.identity.host_names
    grpc = address(reachable(config.grpc.host, known_as), curator.rpc.port)
    rest = f"{scheme}://{address(reachable(config.rest.host, known_as), curator.rest.port)}"
    hosts = {"grpc": config.grpc.host, "rest": config.rest.host}
    everywhere = [name for name, host in hosts.items() if is_every_address(host)]
    if not arguments.json:
        words = "REHEARSAL " if rehearsal else ""
        on_all = f"(on all addresses: {', '.join(everywhere)}) " if everywhere else ""
        say(
            f"ready: {words}grpc {grpc} rest {rest} {on_all}health: {health_port or 'none'} "
            f"client certificates: {curator.rpc.certificate_port or 'none'} "
            f"unix socket: {curator.rpc.unix_socket or 'none'} "
            f"solver: {curator.solver.words} "
            f"data sets: {', '.join(names) or 'none'}"
        )
    unix_socket = curator.rpc.unix_socket
    Screen.of(arguments).answer(
        {
            "ready": True,
            "rehearsal": rehearsal,
            "grpc": grpc,
            "rest": rest,
            "on_all_addresses": everywhere,
            "health_port": health_port,
            "certificate_port": curator.rpc.certificate_port,
            "unix_socket": str(unix_socket) if unix_socket else None,
            "solver": curator.solver.facts,
            "datasets": list(status),
            "status": status,
        }
    )


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
        "rest": {
            "host": arguments.rest_host,
            "port": arguments.rest_port,
            "health_port": arguments.rest_health_port,
        },
    }
    values = config.model_dump()
    for section, changes in options.items():
        values[section] |= {key: value for key, value in changes.items() if value is not None}
    try:
        return CuratorConfig.model_validate(values)
    except ValidationError:
        msg = "ports must be from 0 to 65535"
        raise UsageProblem(msg) from None


SERVE_COMMANDS: dict[str, Callable[[Namespace], None]] = {
    "serve": _serve,
    "rehearse": _rehearse,
}
