"""The commands that serve: real data sets, or a rehearsal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, ClassVar

import typer

from curator.cli.command import Dir, Task, UsageProblem, command, opened
from curator.cli.options import argument, flag, option
from curator.cli.progress import progress_for
from curator.cli.reading import Reading, rate
from curator.cli.screen import Screen, say

if TYPE_CHECKING:
    from curator.config import CuratorConfig
    from curator.folder import CuratorFolder
    from curator.process.bootstrap import ServingCurator

app = typer.Typer()


@dataclass(frozen=True, kw_only=True, slots=True)
class Listening:
    """Addresses and ports; the configuration's where nothing is said."""

    SECTION: ClassVar = "Where it listens"

    grpc_host: str | None = option("Address for gRPC [the configuration's].", "HOST")
    grpc_port: int | None = option("0 takes a free port.", "PORT")
    grpc_certificate_port: int | None = option(
        "For callers with a client certificate [the configuration's]; 0 takes a free port.", "PORT"
    )
    grpc_unix_socket: str | None = option(
        "Also listen on this socket, for analysts of the same user on this machine; in a "
        "folder that only this user may write to.",
        "PATH",
    )
    rest_host: str | None = option("Address for REST [the configuration's].", "HOST")
    rest_port: int | None = option("0 takes a free port.", "PORT")
    rest_health_port: int | None = option(
        "Answers /healthz and /readyz and nothing else, for probes [the configuration's]; "
        "0 takes a free port.",
        "PORT",
    )
    insecure_loopback: bool = flag(
        "--insecure-loopback", "Serve without TLS, on loopback addresses only, for development."
    )
    reflection: bool = flag("--reflection", "Let tools list the methods.")

    def over(self, config: CuratorConfig) -> CuratorConfig:
        """Return a configuration with these ports and addresses.

        Raises:
            UsageProblem: If a port is out of range.
        """
        from pydantic import ValidationError

        options = {
            "grpc": {
                "host": self.grpc_host,
                "port": self.grpc_port,
                "certificate_port": self.grpc_certificate_port,
                "unix_socket": self.grpc_unix_socket,
                "reflection": self.reflection or None,
            },
            "rest": {
                "host": self.rest_host,
                "port": self.rest_port,
                "health_port": self.rest_health_port,
            },
        }
        values = config.model_dump()
        for section, changes in options.items():
            values[section] |= {key: value for key, value in changes.items() if value is not None}
        try:
            return type(config).model_validate(values)
        except ValidationError:
            msg = "ports must be from 0 to 65535"
            raise UsageProblem(msg) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class RehearsalListening(Listening):
    """The same, beside a curator that serves on the usual ports."""

    grpc_port: int | None = option("0 takes a free port.", "PORT", default=50061)
    rest_port: int | None = option("0 takes a free port.", "PORT", default=8090)


@command(app, "serve --dir /srv/weir")
def serve(task: Task, *, folder: Dir, listening: Listening) -> None:
    """Answer analysts until SIGTERM."""
    from curator.config import load_config

    found = opened(folder)
    _serve(task, found, load_config(found.config), listening)


@dataclass(frozen=True, kw_only=True, slots=True)
class StandIns:
    """Facts of the private data set that a rehearsal stands for."""

    SECTION: ClassVar = "Facts, to be like the private data set's"

    name: str | None = option("rehearsal-NAME is the data set's name [by the source].", "NAME")
    classes: str | None = option("Names by label [the source's].", "A,B")
    image_shape: str | None = option("Such as 1x28x28 [the images'].", "CxHxW")
    max_level: int | None = option("Level of a white pixel [255; digits 16].", "N")
    nominal_size: int | None = option("Published size [the number of images].", "N")
    sampling_rate: float | None = option("[50 images a step].", "Q", parser=rate)
    capacity: int | None = option("[q n + 8 sqrt(q n)].", "N")
    delta: float = option("Of the budget without a limit.", "D", default=1e-5)


@command(app, "rehearse", "rehearse fashion.npz --source-is-public")
def rehearse(  # noqa: PLR0913 - one parameter a group of options
    task: Task,
    *,
    source: str = argument(
        "[SOURCE]", "Public images, as for 'dataset add'.", default="sklearn:digits"
    ),
    folder: Path = option(
        "The rehearsal's own folder, made if needed.",
        "DIR",
        "--dir",
        default=Path("weir-rehearsal"),
    ),
    source_is_public: bool = flag(
        "--source-is-public", "Everybody may see SOURCE; needed for all but scikit-learn's digits."
    ),
    like: StandIns,
    reading: Reading,
    listening: RehearsalListening,
) -> None:
    """Serve public images without a limit, to debug for free.

    A training script is debugged for free before it meets private images. Everything but the budget
    is real: the ledger charges, the noise is added. It is marked as a rehearsal everywhere, its
    certificates certify nothing, and its folder is its own.
    """
    from curator.config import load_config
    from curator.process.rehearsal import Rehearsal, prepare_rehearsal  # torch, seconds
    from curator.service.rehearsal import BANNER

    rehearsal = Rehearsal(
        name=like.name,
        source=source,
        is_public=source_is_public,
        options=reading.options(like.classes, like.image_shape, like.max_level),
        nominal_size=like.nominal_size,
        sampling_rate=like.sampling_rate,
        capacity=like.capacity,
        delta=like.delta,
        max_level=like.max_level,
    )
    prepared = prepare_rehearsal(folder, rehearsal, progress_for(task.screen))

    def introduce(port: int) -> None:
        tls = " --insecure-loopback" if listening.insecure_loopback else ""
        credentials = quote(str(prepared.credentials))
        task.screen.tell(
            BANNER,
            f"data set {prepared.dataset}: debug with",
            f"  analyst train --curator localhost:{port} --credentials {credentials} \\",
            f"      --dataset {prepared.dataset}{tls} --recipe NAME --out DIR",
            BANNER,
        )

    config = load_config(prepared.folder.config)
    _serve(task, prepared.folder, config, listening, introduce)


def _serve(
    task: Task,
    folder: CuratorFolder,
    config: CuratorConfig,
    listening: Listening,
    introduce: Callable[[int], None] = lambda _: None,
) -> None:
    """Serve until a signal comes; `introduce` is told the port as soon as it answers.

    Raises:
        UsageProblem: If the ledger's lease was lost.
    """
    from curator.ledger.problems import HolderLost
    from curator.system.tune_process import tune_process
    from curator.telemetry.log import configure_logging

    task.is_answered = False  # the exit code tells how serving ended, not what was printed
    tune_process()
    from curator.process.bootstrap import create_curator, drain_on_signals  # torch, seconds

    config = listening.over(config)
    configure_logging()
    curator = create_curator(folder, config, insecure_loopback=listening.insecure_loopback)
    drain_on_signals(curator)
    curator.start()
    introduce(curator.rpc.port)
    say_ready(task.screen, config, curator, tls=not listening.insecure_loopback)
    try:
        curator.wait()
    except HolderLost:
        msg = (
            "this curator lost its lease on the ledger, so another may have taken its runs over; "
            "nothing was released since. Start it again."
        )
        raise UsageProblem(msg) from None


def say_ready(screen: Screen, config: CuratorConfig, curator: ServingCurator, *, tls: bool) -> None:
    """Print one line or one object as soon as it answers, also when quiet: scripts wait for it."""
    from curator.identity.listen import address, is_every_address, reachable
    from curator.privacy.facts import is_rehearsal

    scheme = "https" if tls else "http"
    status = {state.registration.name: state.status for state in curator.ledger.datasets()}
    names = [f"{name} ({is_now})" if is_now.is_final else name for name, is_now in status.items()]
    rehearsal = any(map(is_rehearsal, status))
    health_port = None if curator.health is None else curator.health.port
    known_as = config.identity.host_names
    grpc = address(reachable(config.grpc.host, known_as), curator.rpc.port)
    rest = f"{scheme}://{address(reachable(config.rest.host, known_as), curator.rest.port)}"
    hosts = {"grpc": config.grpc.host, "rest": config.rest.host}
    everywhere = [name for name, host in hosts.items() if is_every_address(host)]
    if not screen.as_json:
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
    screen.answer(
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
