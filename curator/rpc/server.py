"""Build the gRPC server: ports, TLS, limits, health and reflection."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from curator.identity.listen import PortUnavailable, TlsFiles
from curator.rpc.identity import Authenticator
from curator.rpc.servicer import WeirServicer
from curator.rpc.shield import Shield
from curator.service.certificate import Signer
from curator.service.context import Context
from protos.weir.v1 import service_pb2, service_pb2_grpc

_WORKERS = 128  # an open stream holds one
_SERVICE = service_pb2.DESCRIPTOR.services_by_name["WeirService"].full_name


@dataclass(frozen=True, kw_only=True, slots=True)
class RpcConfig:
    """Where and how to listen."""

    host: str
    port: int
    tls: TlsFiles | None  # None only on loopback, behind an explicit flag
    max_message_bytes: int
    reflection: bool


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RpcServer:
    """A server that is not started yet, its bound port and its health switch."""

    server: grpc.Server
    port: int
    health: health.HealthServicer

    def start(self) -> None:
        """Begin to answer."""
        self.server.start()
        for service in ("", _SERVICE):
            self.health.set(service, health_pb2.HealthCheckResponse.SERVING)

    def drain(self, grace_seconds: float) -> None:
        """Stop taking calls, and wait for those that are being served.

        Args:
            grace_seconds: How long to wait at most.
        """
        self.health.enter_graceful_shutdown()
        self.server.stop(grace_seconds).wait()


def create_server(
    context: Context, authenticator: Authenticator, signer: Signer, config: RpcConfig
) -> RpcServer:
    """Build a server and bind its port.

    Args:
        context: The collaborators of the use cases.
        authenticator: Who may call.
        signer: Signs privacy certificates.
        config: Where and how to listen; port 0 takes a free one.

    Returns:
        The bound server.

    Raises:
        PortUnavailable: If the port cannot be bound.
    """
    server = grpc.server(
        ThreadPoolExecutor(_WORKERS, thread_name_prefix="rpc"),
        interceptors=[Shield(authenticator)],
        maximum_concurrent_rpcs=_WORKERS,  # one more is refused, never queued behind streams
        options=[
            ("grpc.max_receive_message_length", config.max_message_bytes),
            ("grpc.max_send_message_length", config.max_message_bytes),
            ("grpc.so_reuseport", 0),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
        ],
    )
    service_pb2_grpc.add_WeirServiceServicer_to_server(WeirServicer(context, signer), server)
    health_servicer = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health_servicer, server)
    if config.reflection:
        names = (_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
    return RpcServer(server=server, port=_bind(server, config), health=health_servicer)


def _bind(server: grpc.Server, config: RpcConfig) -> int:
    """Bind the port.

    Raises:
        PortUnavailable: If it is in use or not allowed.
    """
    address = f"{config.host}:{config.port}"
    try:
        if config.tls is None:
            return server.add_insecure_port(address)
        pair = (config.tls.key.read_bytes(), config.tls.certificate.read_bytes())
        return server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except RuntimeError:
        msg = f"cannot listen on {address}: the port is in use or not allowed; choose --grpc-port"
        raise PortUnavailable(msg) from None
