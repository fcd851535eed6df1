"""One connection to a curator: TLS or a local socket, token or certificate, deadlines."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar, final

import grpc

from analyst.client.address import (
    check_unix_socket,
    grpc_target,
    is_unix_socket,
    socket_path,
    steps_path,
)
from analyst.client.credentials import Credentials
from analyst.client.diagnose import why_unreachable
from analyst.client.local_steps import LocalSteps
from analyst.client.refusals import unreachable
from analyst.client.retry import persist
from analyst.client.stream import StepCall, Steps, StepStream
from analyst.errors import BarrierClosed, CredentialsError, CuratorUnreachable, StepsOverGrpc
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
_LOOK_SECONDS = 2.0

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
            target: HOST:PORT, or unix:/path or local:/path for a curator on this machine.
            credentials: Token or client certificate, and the authority to trust.
            insecure_loopback: Speak without TLS, for a curator that serves so on loopback.

        Raises:
            CredentialsError: If TLS is left out for an address that is not loopback, or for
                credentials that hold a certificate; or if others may open the socket.
        """
        is_local = is_unix_socket(target)
        self._steps_path = steps_path(target)
        if is_local:
            check_unix_socket(socket_path(target))
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
            self._look_for_steps()
            return
        if say is not None and seconds > _SAY_AFTER_S:
            say(f"no answer from {self.target} yet; waiting up to {seconds:g} s")
        if not _is_ready(ready, seconds - _SAY_AFTER_S):
            problem = unreachable(self.target, why_unreachable(self.target, self._authority))
            raise problem
        self._look_for_steps()

    def _look_for_steps(self) -> None:
        """Send steps over gRPC, and say so, if the curator that answers has no socket for them."""
        if self._steps_path is None:
            return
        try:
            check_unix_socket(self._steps_path)
            with closing(self._local_steps(self._steps_path, _LOOK_SECONDS, 0)) as steps:
                steps.look()
        except (CuratorUnreachable, CredentialsError) as problem:
            warnings.warn(
                f"steps go over gRPC, the slower way: {problem} If that is meant, use unix:PATH.",
                StepsOverGrpc,
                stacklevel=4,
            )
            self._steps_path = None

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

    def open_steps(self, seconds: float, part_bytes: int) -> Steps:
        """Open a run's way for steps.

        Args:
            seconds: How long an answer may take.
            part_bytes: A larger request goes in pieces of so many bytes; 0 sends all whole.

        Raises:
            BarrierClosed: If this connection is closed.
        """
        if self._is_closed:
            raise BarrierClosed
        if self._steps_path is not None:
            return self._local_steps(self._steps_path, seconds, part_bytes)

        def call(requests: Iterator[release_pb2.StepRequest]) -> StepCall:
            return self.stub.StreamSteps(requests, metadata=self._metadata)

        return StepStream(call, self.target, seconds, part_bytes)

    def _local_steps(self, path: Path, seconds: float, part_bytes: int) -> LocalSteps:
        return LocalSteps(path, dict(self._metadata).get("authorization", ""), seconds, part_bytes)

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
