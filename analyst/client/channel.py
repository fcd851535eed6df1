"""One connection to a curator: TLS or a local socket, token or certificate, deadlines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import TypeVar, final

import grpc

from analyst.client.address import check_unix_socket, grpc_target, is_unix_socket
from analyst.client.credentials import Credentials
from analyst.client.diagnose import why_unreachable
from analyst.client.refusals import unreachable
from analyst.client.retry import persist
from analyst.errors import BarrierClosed, CredentialsError
from protos.weir.v1 import release_pb2, service_pb2_grpc

_MAX_MESSAGE = 1 << 30
_OPTIONS = [
    ("grpc.max_send_message_length", _MAX_MESSAGE),
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]

_SAY_AFTER_S = 2.0

T = TypeVar("T")
Request = TypeVar("Request")
Response = TypeVar("Response")


@final
class Connection:
    """A channel with the analyst's token or certificate."""

    def __init__(
        self, target: str, credentials: Credentials | None, *, insecure_loopback: bool
    ) -> None:
        """Prepare a channel; nothing is sent yet.

        Args:
            target: HOST:PORT, or unix:/path for a curator on this machine.
            credentials: Token or client certificate, and the authority to trust.
            insecure_loopback: Speak without TLS, for a curator that serves so on loopback.

        Raises:
            CredentialsError: If TLS is left out for an address that is not loopback, or for
                credentials that hold a certificate; or if others may open the socket.
        """
        is_local = is_unix_socket(target)
        if is_local:
            check_unix_socket(target)
        elif insecure_loopback and not _is_loopback(target):
            msg = f"{target} is not a loopback address, so nothing is sent there without TLS."
            raise CredentialsError(msg, "Leave --insecure-loopback out.")
        token = None if credentials is None else credentials.token
        if (insecure_loopback or is_local) and credentials is not None and token is None:
            msg = "A client certificate proves nothing without TLS."
            raise CredentialsError(msg, "Use the port for certificates, or ask for a token.")
        self.target = target
        self._is_closed = False
        has_tls = credentials is not None and not (insecure_loopback or is_local)
        self._authority = credentials.certificate_authority if credentials and has_tls else None
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        if insecure_loopback or is_local:
            self._channel = grpc.insecure_channel(grpc_target(target), options=_OPTIONS)
        else:
            self._channel = grpc.secure_channel(target, _tls(credentials), options=_OPTIONS)
        self.stub = service_pb2_grpc.WeirServiceStub(self._channel)

    def wait_until_ready(self, seconds: float, *, say: Callable[[str], None] | None = None) -> None:
        """Wait for the connection.

        Args:
            seconds: How long at most.
            say: Told who is waited for, when that takes long.

        Raises:
            CuratorUnreachable: If nothing answers.
        """
        ready = grpc.channel_ready_future(self._channel)
        if _is_ready(ready, min(seconds, _SAY_AFTER_S)):
            return
        if say is not None and seconds > _SAY_AFTER_S:
            say(f"no answer from {self.target} yet; waiting up to {seconds:g} s")
        if not _is_ready(ready, seconds - _SAY_AFTER_S):
            problem = unreachable(self.target, why_unreachable(self.target, self._authority))
            raise problem

    def call(
        self, method: Callable[..., Response], request: object, *, seconds: float, patience: float
    ) -> Response:
        """Send one request; after a lost connection send the same request again.

        Raises:
            AnalystError: As the curator refused, or `CuratorUnreachable` when patience ended.
        """

        def attempt() -> Response:
            return method(request, timeout=seconds, metadata=self._metadata)

        return self.persist(attempt, patience=patience)

    def persist(self, attempt: Callable[[], T], *, patience: float) -> T:
        """Repeat an attempt while the curator is unreachable, or says when to come again.

        Args:
            attempt: Must ask for the same each time.
            patience: How long to try at all, in seconds.

        Raises:
            BarrierClosed: If this connection is closed.
        """
        if self._is_closed:
            raise BarrierClosed
        return persist(attempt, target=self.target, patience=patience)

    def stream_steps(
        self, requests: Iterator[release_pb2.StepRequest]
    ) -> grpc.CallIterator[release_pb2.StepResponse]:
        """Open the stream of a run.

        Args:
            requests: Consumed by the connection's own thread.

        Returns:
            The responses, in order.

        Raises:
            BarrierClosed: If this connection is closed.
        """
        if self._is_closed:
            raise BarrierClosed
        return self.stub.StreamSteps(requests, metadata=self._metadata)

    def close(self) -> None:
        """Close the channel."""
        self._is_closed = True
        self._channel.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed


def _is_ready(ready: grpc.Future[None], seconds: float) -> bool:
    try:
        ready.result(timeout=max(0.0, seconds))
    except grpc.FutureTimeoutError:
        return False
    return True


def _tls(credentials: Credentials | None) -> grpc.ChannelCredentials:
    if credentials is None:
        return grpc.ssl_channel_credentials()
    authority, client = credentials.certificate_authority.encode(), credentials.client
    if client is None:
        return grpc.ssl_channel_credentials(authority)
    return grpc.ssl_channel_credentials(authority, client.key.encode(), client.certificate.encode())


def _is_loopback(target: str) -> bool:
    host = target.rsplit(":", 1)[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
