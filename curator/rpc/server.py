"""Build the gRPC server: ports, TLS, limits, health and reflection."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from curator.identity.listen import PortUnavailable, Reload, TlsFiles, address
from curator.overview.certificate import Signer
from curator.planning.planner import Planner
from curator.rpc.call_limits import (
    LARGEST_MESSAGE,
    LARGEST_REQUESTS,
    CallDeadlines,
    OpenCalls,
    Room,
)
from curator.rpc.identity import Authenticator
from curator.rpc.local_server import LocalServer, StepCalls, steps_place
from curator.rpc.servicer import WeirServicer
from curator.rpc.shield import Bounds, Shield
from curator.rpc.unix_socket import SocketPlace, bind_unix_socket, remove_unix_socket
from curator.service.service import Service
from protos.weir.v1 import service_pb2, service_pb2_grpc

_WORKERS = 128  # an open stream holds one
_CONNECTIONS = 512  # with REST's, fewer than the files that a process may usually open
_CALLS_OF_A_CONNECTION = 100
_SERVICE = service_pb2.DESCRIPTOR.services_by_name["WeirService"].full_name


@dataclass(frozen=True, kw_only=True, slots=True)
class RpcConfig:
    """Where and how to listen."""

    host: str
    port: int
    certificate_port: int | None = None  # for callers with a client certificate; needs TLS
    tls: TlsFiles | None  # None only on loopback, behind an explicit flag
    unix_socket: SocketPlace | None = None  # for callers on this machine
    max_message_bytes: int  # of a request, in however many pieces
    reflection: bool


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RpcServer:
    """A server that is not started yet, its bound ports and its health switch."""

    server: grpc.Server
    port: int
    certificate_port: int | None
    unix_socket: Path | None
    local: LocalServer | None  # steps beside the socket, without gRPC
    health: health.HealthServicer
    patience: CallDeadlines

    def start(self) -> None:
        """Begin to answer."""
        self.patience.start()
        self.server.start()
        if self.local is not None:
            self.local.start()
        for service in ("", _SERVICE):
            self.health.set(service, health_pb2.HealthCheckResponse.SERVING)

    def set_serving(self, *, serving: bool) -> None:
        """Tell load balancers whether steps can be taken now; nothing comes back after a drain."""
        known = health_pb2.HealthCheckResponse
        for service in ("", _SERVICE):
            self.health.set(service, known.SERVING if serving else known.NOT_SERVING)

    def drain(self, grace_seconds: float) -> None:
        """Stop taking calls, end those that only wait, and wait for those that are being served.

        Args:
            grace_seconds: How long to wait at most.
        """
        ends_at = time.monotonic() + grace_seconds
        self.health.enter_graceful_shutdown()
        stopped = self.server.stop(grace_seconds)
        if self.local is not None:
            self.local.stop()
        self.patience.stop()
        stopped.wait()
        if self.local is not None:
            self.local.wait(max(0.0, ends_at - time.monotonic()))
        if self.unix_socket is not None:
            remove_unix_socket(self.unix_socket)


def create_server(
    service: Service,
    planner: Planner,
    authenticator: Authenticator,
    signer: Signer,
    config: RpcConfig,
) -> RpcServer:
    """Build a server and bind its port.

    Args:
        service: What runs.
        planner: What plans, on the same ledger.
        authenticator: Who may call.
        signer: Signs privacy certificates.
        config: Where and how to listen; port 0 takes a free one.

    Raises:
        PortUnavailable: If a port or the socket cannot be bound.
    """
    calls = OpenCalls(_WORKERS)
    patience = CallDeadlines(calls.is_crowded)
    bounds = Bounds(
        calls=calls,
        patience=patience,
        room=Room(LARGEST_REQUESTS * config.max_message_bytes),
        most_request_bytes=config.max_message_bytes,
    )
    shield = Shield(authenticator, bounds, service.telemetry, service.desk)
    largest_message = min(LARGEST_MESSAGE, config.max_message_bytes)
    server = grpc.server(
        ThreadPoolExecutor(_WORKERS, thread_name_prefix="rpc"),
        interceptors=[shield],
        maximum_concurrent_rpcs=_WORKERS,  # one more is refused, never queued behind streams
        options=[
            ("grpc.max_receive_message_length", largest_message),
            ("grpc.max_allowed_incoming_connections", _CONNECTIONS),
            ("grpc.max_concurrent_streams", _CALLS_OF_A_CONNECTION),
            ("grpc.max_connection_idle_ms", 300_000),  # one without a call; clients connect again
            ("grpc.server_handshake_timeout_ms", 10_000),
            ("grpc.max_send_message_length", config.max_message_bytes),
            ("grpc.so_reuseport", 0),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
            ("grpc.http2.max_ping_strikes", 0),  # a stalled machine delivers pings in bunches
            ("grpc.keepalive_time_ms", 60_000),  # a peer that is gone frees its worker
            ("grpc.keepalive_timeout_ms", 20_000),
        ],
    )
    servicer = WeirServicer(service, planner, signer)
    service_pb2_grpc.add_WeirServiceServicer_to_server(servicer, server)
    health_servicer = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    if config.reflection:
        names = (_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
    port, certificate_port = _bind(server, config)
    local = None
    if config.unix_socket is not None:
        bind_unix_socket(
            config.unix_socket,
            lambda path: server.add_insecure_port(f"unix:{quote(str(path))}"),  # gRPC decodes it
        )
        answering = StepCalls(
            shield=shield, servicer=servicer, patience=patience, largest_message=largest_message
        )
        place = steps_place(config.unix_socket)
        try:
            local = LocalServer.where_peers_are_told(place, answering, _WORKERS)
        except PortUnavailable:
            remove_unix_socket(config.unix_socket.path)
            raise
    return RpcServer(
        server=server,
        port=port,
        certificate_port=certificate_port,
        unix_socket=None if config.unix_socket is None else config.unix_socket.path,
        local=local,
        health=health_servicer,
        patience=patience,
    )


def _bind(server: grpc.Server, config: RpcConfig) -> tuple[int, int | None]:
    """Bind the port for tokens, and the one for client certificates.

    gRPC for Python can require client certificates of a port or not ask for them; so there are two.

    Raises:
        PortUnavailable: If one is in use or not allowed.
    """
    try:
        if config.tls is None:
            return server.add_insecure_port(address(config.host, config.port)), None
        port = server.add_secure_port(
            address(config.host, config.port), _credentials(config.tls, asks_for_certificate=False)
        )
        if config.certificate_port is None:
            return port, None
        return port, server.add_secure_port(
            address(config.host, config.certificate_port),
            _credentials(config.tls, asks_for_certificate=True),
        )
    except RuntimeError:
        msg = (
            f"cannot listen on {config.host}: port {config.port} or the port for certificates is "
            "in use or not allowed; choose --grpc-port and --grpc-certificate-port"
        )
        raise PortUnavailable(msg) from None


def _credentials(tls: TlsFiles, *, asks_for_certificate: bool) -> grpc.ServerCredentials:
    """Serve the files as they are at each handshake."""
    reload = Reload(tls)

    def now() -> grpc.ServerCertificateConfiguration:
        pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
        root = tls.authority.read_bytes() if asks_for_certificate else None
        return grpc.ssl_server_certificate_configuration([pair], root)

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        return None if reload.changed() is None else now()

    return grpc.dynamic_ssl_server_credentials(
        now(),
        fetch,  # type: ignore[arg-type]  # None means unchanged; the stubs do not know
        require_client_authentication=asks_for_certificate,
    )
