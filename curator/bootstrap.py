"""Build a serving curator out of a folder, run it, and take it down in order."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address

import torch

from curator.clock import utc_now
from curator.config import CuratorConfig
from curator.data.errors import SourceError
from curator.data.sampling import PrivateRecords
from curator.data.store import open_store
from curator.errors import LedgerUnavailable
from curator.folder import CuratorFolder
from curator.ledger.sql import SqlLedger
from curator.privacy.facts import DatasetFacts
from curator.rest.app import create_app
from curator.rest.server import RestConfig, RestServer
from curator.rpc.identity import BearerTokens
from curator.rpc.server import RpcConfig, RpcServer, create_server
from curator.sanitizer.entropy import OsEntropy
from curator.service.context import Context, ServedDataset
from curator.service.idle_runs import IdleRuns
from curator.service.response_slot import ResponseSlot

_GRACE_SECONDS = 10.0
_IDLE_CHECK_SECONDS = 60.0
_MIB = 1 << 20


class InsecureOutsideLoopback(RuntimeError):
    """Serving without TLS is for the loopback interface only."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Curator:
    """A bound curator that is not answering yet."""

    ledger: SqlLedger
    executor: ThreadPoolExecutor
    rpc: RpcServer
    rest: RestServer
    draining: threading.Event
    end_idle_runs: Callable[[], None]

    def start(self) -> None:
        """Begin to answer."""
        self.rpc.start()
        self.rest.start()

    def wait(self) -> None:
        """Answer until `draining` is set, then finish what was begun and close the ledger."""
        while not self.draining.wait(_IDLE_CHECK_SECONDS):
            self.end_idle_runs()
        self.rpc.drain(_GRACE_SECONDS)
        self.executor.shutdown(wait=True)
        self.rest.stop()
        self.ledger.close()


def create_curator(
    folder: CuratorFolder, config: CuratorConfig, *, insecure_loopback: bool = False
) -> Curator:
    """Open the ledger and the data sets, and bind both ports.

    Args:
        folder: An initialised folder.
        config: The steward's configuration.
        insecure_loopback: Serve without TLS, on loopback addresses only.

    Returns:
        A curator ready to run.

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
    ledger = SqlLedger.open_writer(folder.ledger, utc_now)
    try:
        executor = ThreadPoolExecutor(
            os.cpu_count() or 1, thread_name_prefix="compute", initializer=_flush_subnormals
        )
        context = Context(
            ledger=ledger,
            datasets=load_datasets(folder, ledger),
            noise=OsEntropy(),
            executor=executor,
            holder=f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}",
            max_samples=config.limits.max_samples,
            slot=ResponseSlot(seconds=config.timing.response_slot_ms / 1000),
        )
        draining = threading.Event()
        tls = None if insecure_loopback else folder.tls
        rpc = create_server(
            context,
            BearerTokens(folder.tokens),
            folder.signing_key,
            RpcConfig(
                host=config.grpc.host,
                port=config.grpc.port,
                tls=tls,
                max_message_bytes=config.limits.max_message_mib * _MIB,
                reflection=config.grpc.reflection,
            ),
        )
        app = create_app(
            context, folder.tokens, lambda: not draining.is_set() and _can_read(ledger)
        )
        rest = RestServer(app, RestConfig(host=config.rest.host, port=config.rest.port, tls=tls))
    except BaseException:
        ledger.close()
        raise
    return Curator(
        ledger=ledger,
        executor=executor,
        rpc=rpc,
        rest=rest,
        draining=draining,
        end_idle_runs=IdleRuns(context, config.limits.idle_hours * 3600).end,
    )


def drain_on_signals(curator: Curator) -> None:
    """Drain on SIGTERM and SIGINT.

    Args:
        curator: To be taken down.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: curator.draining.set())


def load_datasets(folder: CuratorFolder, ledger: SqlLedger) -> dict[str, ServedDataset]:
    """Open every data set that the ledger knows, checking the stored images.

    Args:
        folder: Where the images are.
        ledger: Which data sets there are, with their public facts.

    Returns:
        The data sets by name.

    Raises:
        SourceError: If stored images are damaged, or have another unit than the ledger says.
    """
    served = {}
    for state in ledger.datasets():
        facts = DatasetFacts.model_validate_json(state.registration.facts_json)
        images = open_store(folder.images(facts.name))
        if images.max_per_group != facts.max_records_per_group:
            msg = f"{facts.name}: the stored images have another unit than the ledger says"
            raise SourceError(msg)
        records = PrivateRecords(images, facts.max_size)
        served[facts.name] = ServedDataset(facts=facts, records=records)
    return served


def _flush_subnormals() -> None:
    """Make arithmetic take the same time for tiny numbers, which private data could produce."""
    torch.set_flush_denormal(True)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _can_read(ledger: SqlLedger) -> bool:
    try:
        ledger.head()
    except LedgerUnavailable:
        return False
    return True
