"""Build a serving curator out of a folder, run it, and take it down in order."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import torch

from curator.administration.channel import CommandServer
from curator.administration.execute import execute
from curator.administration.open_ledger import open_ledger
from curator.config import CuratorConfig, GrpcSection, RestSection
from curator.divergences.backend import Choice, choose_backend
from curator.divergences.device import choose_device
from curator.divergences.placement import place_critics
from curator.folder import CuratorFolder
from curator.identity.listen import TlsFiles
from curator.identity.tokens import TokenTable
from curator.ledger.checkpoint import Checkpoint
from curator.ledger.problems import HolderLost
from curator.ledger.sql_ledger import SqlLedger
from curator.mechanisms.public_networks import choose_networks
from curator.overview.history import History
from curator.overview.summary import Shown
from curator.planning.planner import Planner
from curator.process.checkpoint_renewal import Renewal
from curator.process.holder_lease import HolderLease
from curator.process.load_datasets import load_dataset, load_datasets
from curator.rest.app import create_app
from curator.rest.health import create_health_app
from curator.rest.server import RestConfig, RestServer
from curator.rpc.identity import KnownCallers
from curator.rpc.server import RpcConfig, RpcServer, create_server
from curator.rpc.unix_socket import SocketPlace
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.prefetched import PrefetchedNoise
from curator.service.end_runs import IdleRuns, relinquish_runs
from curator.service.fair_turns import InTurn, flush_subnormals
from curator.service.response_slot import ResponseSlot
from curator.service.runs import Runs
from curator.service.served_datasets import ServedDatasets
from curator.service.service import Computing, Service
from curator.state.folder import StateFolder
from curator.telemetry.requests import Telemetry
from curator.telemetry.traces import create_trace

_GRACE_SECONDS = 10.0
_IDLE_CHECK_SECONDS = 60.0
_WATCH_SECONDS = 1.0
_NOISE_AHEAD = 1 << 18  # a few steps of a small data set, 2 MiB


class InsecureOutsideLoopback(RuntimeError):
    """Serving without TLS is for the loopback interface only."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ServingCurator:
    """A bound curator that is not answering yet."""

    ledger: SqlLedger
    executor: Executor
    preparing: Executor
    rpc: RpcServer
    rest: RestServer
    health: RestServer | None  # what a load balancer asks, where nothing else is answered
    administration: CommandServer
    tenure: HolderLease
    renewal: Renewal
    noise: PrefetchedNoise
    tokens: TokenTable
    draining: threading.Event
    solver: Choice
    look_at_stored_images: Callable[[], None]
    end_idle_runs: Callable[[], None]
    end_setups: Callable[[], None]
    relinquish_runs: Callable[[], None]

    def start(self) -> None:
        """Begin to answer."""
        self.tenure.start()
        self.rpc.start()
        self.rest.start()
        if self.health is not None:
            self.health.start()
        self.administration.start()

    def wait(self) -> None:
        """Answer until `draining` is set, then finish what was begun and close the ledger.

        Raises:
            HolderLost: If another curator may have taken the runs over; nothing was released since.
            LedgerRestored: If the ledger went back; nothing was released since that was noticed.
            ChainBroken: If the ledger was changed by something else while it was served.
        """
        ended_idle = time.monotonic()
        while not self.draining.wait(_WATCH_SECONDS) and not self._must_stop():
            self.rpc.set_serving(serving=self.ledger.is_writable() and self.tokens.is_intact())
            self.look_at_stored_images()
            if time.monotonic() - ended_idle >= _IDLE_CHECK_SECONDS:
                self.end_idle_runs()
                self.renewal.look()
                ended_idle = time.monotonic()
        self.draining.set()
        self.rpc.drain(_GRACE_SECONDS)
        self.end_setups()  # those that were not over soon
        self.executor.shutdown(wait=True)
        self.preparing.shutdown(wait=True)
        self.rest.stop()
        if self.health is not None:
            self.health.stop()
        self.administration.stop()
        self.noise.stop()
        self.relinquish_runs()
        was_lost = self.tenure.is_lost()
        self.tenure.end()
        self.ledger.close()
        self.renewal.check()
        if was_lost:
            raise self.ledger.lost or HolderLost

    def _must_stop(self) -> bool:
        return self.tenure.is_lost() or self.renewal.is_broken()


def create_curator(
    folder: CuratorFolder, config: CuratorConfig, *, insecure_loopback: bool = False
) -> ServingCurator:
    """Open the ledger and the data sets, and bind both ports.

    Args:
        folder: An initialised folder.
        config: The steward's configuration.
        insecure_loopback: Serve without TLS, on loopback addresses only.

    Raises:
        InsecureOutsideLoopback: If TLS is switched off for an address that is not loopback.
    """
    if insecure_loopback and not (
        _is_loopback(config.grpc.host) and _is_loopback(config.rest.host)
    ):
        msg = "--insecure-loopback serves 127.0.0.1 or ::1 only; use TLS for any other address"
        raise InsecureOutsideLoopback(msg)
    if config.compute.threads:
        torch.set_num_threads(config.compute.threads)
    compute = config.compute
    choose_device(compute.device)
    place_critics(compute.ray_workers, compute.ray_address, compute.device)
    solver = choose_backend(config.compute.solver)
    choose_networks(folder.networks)
    tokens = folder.tokens
    tokens.check()
    history = History()
    known = Checkpoint(folder.checkpoint, history)
    ledger = open_ledger(folder, config, known=known)
    try:
        holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
        tenure = HolderLease.of(ledger, holder, config)
        noise = PrefetchedNoise(OsEntropy(), _NOISE_AHEAD)
        endpoint = config.telemetry.trace_endpoint
        executor, preparing = _executor(config), _executor(config)
        datasets = ServedDatasets(
            load_datasets(folder, ledger), lambda name: load_dataset(folder, ledger, name)
        )
        runs = Runs(
            ledger=ledger,
            datasets=datasets,
            holder=holder,
            check_holder=tenure.check,
            states=_states(folder, ledger),
        )
        service = Service(
            runs=runs,
            computing=Computing(
                noise=noise,
                executor=executor,
                preparing=preparing,
                draw_noise_ahead=noise.draw_ahead,
                slot=ResponseSlot(seconds=config.timing.response_slot_ms / 1000),
            ),
            limits=config.limits,
            telemetry=Telemetry(create_trace(endpoint) if endpoint else None),
        )
        planner = Planner(
            ledger=ledger,
            facts=datasets.facts,
            limits=config.limits,
            in_service=datasets.is_in_service,
        )
        draining = threading.Event()
        tls = None if insecure_loopback else folder.tls
        rpc = create_server(
            service,
            planner,
            KnownCallers(tokens),
            folder.signing_key,
            RpcConfig(
                host=config.grpc.host,
                port=config.grpc.port,
                certificate_port=config.grpc.certificate_port,
                tls=tls,
                unix_socket=_socket_place(config.grpc),
                max_message_bytes=config.limits.max_message_bytes,
                reflection=config.grpc.reflection,
            ),
        )

        def is_ready() -> bool:
            return not draining.is_set() and ledger.is_writable() and tokens.is_intact()

        shown = Shown(
            ledger=ledger,
            datasets=datasets,
            telemetry=service.telemetry,
            is_ready=is_ready,
            solver=solver,
            history=history,
            making=lambda: runs.setups.in_progress(runs.monotonic()),
        )
        app = create_app(shown, planner, tokens, folder.signing_key)
        administration = CommandServer(
            folder.socket, lambda command: execute(runs, folder, command)
        )
        rest = RestServer(app, RestConfig(host=config.rest.host, port=config.rest.port, tls=tls))
        health = _health(is_ready, config.rest, tls)
    except BaseException:
        ledger.close()
        raise
    return ServingCurator(
        ledger=ledger,
        executor=executor,
        preparing=preparing,
        rpc=rpc,
        rest=rest,
        health=health,
        administration=administration,
        tenure=tenure,
        renewal=Renewal(ledger, folder.checkpoint, known),
        noise=noise,
        tokens=tokens,
        draining=draining,
        solver=solver,
        look_at_stored_images=datasets.look_at_stored_images,
        end_idle_runs=IdleRuns(runs, config.limits.idle_hours * 3600).end,
        end_setups=runs.setups.stop,
        relinquish_runs=lambda: relinquish_runs(runs),
    )


def _socket_place(config: GrpcSection) -> SocketPlace | None:
    """Return where analysts on this machine come in, if they may."""
    if not config.unix_socket:
        return None
    return SocketPlace(path=Path(config.unix_socket), user=config.unix_socket_user)


def drain_on_signals(curator: ServingCurator) -> None:
    """Drain on SIGTERM and SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: curator.draining.set())


def _health(
    is_ready: Callable[[], bool], config: RestSection, tls: TlsFiles | None
) -> RestServer | None:
    """Return the listener that answers nothing but whether the curator lives and is ready."""
    if config.health_port is None:
        return None
    place = RestConfig(
        host=config.host, port=config.health_port, tls=tls, option="--rest-health-port"
    )
    return RestServer(create_health_app(is_ready), place)


def _states(folder: CuratorFolder, ledger: SqlLedger) -> StateFolder:
    """Return where runs keep their states, without those of runs that ended."""
    states = StateFolder(folder.states)
    states.forget_all_but(ledger.open_runs())
    return states


def _executor(config: CuratorConfig) -> Executor:
    """Return where steps are computed; calls that use many cores each share a few threads."""
    most = os.cpu_count() or 1
    if config.compute.threads == 1:
        return InTurn(most, most)
    threads = ThreadPoolExecutor(
        2 * most, thread_name_prefix="compute", initializer=flush_subnormals
    )
    return InTurn(most, most, pool=threads)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
