"""One connection to a curator: TLS, token, retries of the same request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import TypeVar, final

import grpc

from analyst.client.credentials import Credentials
from analyst.client.refusals import to_exception, unreachable
from analyst.errors import AnalystError, CredentialsError, CuratorUnreachable
from protos.weir.v1 import release_pb2, service_pb2_grpc

_MAX_MESSAGE = 1 << 30
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_OPTIONS = [
    ("grpc.max_send_message_length", _MAX_MESSAGE),
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]

T = TypeVar("T")
Request = TypeVar("Request")
Response = TypeVar("Response")


@final
class Connection:
    """A channel with the analyst's token."""

    def __init__(
        self, target: str, credentials: Credentials | None, *, insecure_loopback: bool
    ) -> None:
        """Prepare a channel; nothing is sent yet.

        Args:
            target: HOST:PORT.
            credentials: Token and certificate authority.
            insecure_loopback: Speak without TLS, for a curator that serves so on loopback.

        Raises:
            CredentialsError: If TLS is left out for an address that is not loopback.
        """
        if insecure_loopback and not _is_loopback(target):
            msg = f"{target} is not a loopback address, so nothing is sent there without TLS."
            raise CredentialsError(msg, "Leave --insecure-loopback out.")
        self.target = target
        self._metadata = (
            () if credentials is None else (("authorization", f"Bearer {credentials.token}"),)
        )
        if insecure_loopback:
            self._channel = grpc.insecure_channel(target, options=_OPTIONS)
        else:
            authority = None if credentials is None else credentials.certificate_authority.encode()
            tls = grpc.ssl_channel_credentials(root_certificates=authority)
            self._channel = grpc.secure_channel(target, tls, options=_OPTIONS)
        self.stub = service_pb2_grpc.WeirServiceStub(self._channel)

    def wait_until_ready(self, seconds: float) -> None:
        """Wait for the connection.

        Args:
            seconds: How long at most.

        Raises:
            CuratorUnreachable: If nothing answers.
        """
        try:
            grpc.channel_ready_future(self._channel).result(timeout=seconds)
        except grpc.FutureTimeoutError:
            problem = unreachable(self.target)
            raise problem from None

    def call(
        self, method: Callable[..., Response], request: object, *, seconds: float, patience: float
    ) -> Response:
        """Send one request; after a lost connection send the same request again.

        Args:
            method: Of the stub.
            request: The message.
            seconds: Deadline of one attempt.
            patience: How long to try at all.

        Returns:
            The response.

        Raises:
            AnalystError: As the curator refused, or `CuratorUnreachable` when patience ended.
        """

        def attempt() -> Response:
            return method(request, timeout=seconds, metadata=self._metadata)

        return self.persist(attempt, patience=patience)

    def persist(self, attempt: Callable[[], T], *, patience: float) -> T:
        """Repeat an attempt while the curator is unreachable.

        Args:
            attempt: Must ask for the same each time.
            patience: How long to try at all, in seconds.

        Returns:
            What the attempt returned.

        Raises:
            AnalystError: As the curator refused, or `CuratorUnreachable` when patience ended.
        """
        until, pause = time.monotonic() + patience, _FIRST_PAUSE
        while True:
            try:
                return attempt()
            except grpc.RpcError as error:
                problem = to_exception(error, self.target)
            except CuratorUnreachable as error:
                problem = error
            _give_up_unless_unreachable(problem, until, pause)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def stream_steps(
        self, requests: Iterator[release_pb2.StepRequest]
    ) -> grpc.CallIterator[release_pb2.StepResponse]:
        """Open the stream of a run.

        Args:
            requests: Consumed by the connection's own thread.

        Returns:
            The responses, in order.
        """
        return self.stub.StreamSteps(requests, metadata=self._metadata)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


def _is_loopback(target: str) -> bool:
    host = target.rsplit(":", 1)[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _give_up_unless_unreachable(problem: AnalystError, until: float, pause: float) -> None:
    """Raise what is final, or what would last longer than the caller's patience.

    Raises:
        AnalystError: The problem.
    """
    if not isinstance(problem, CuratorUnreachable) or time.monotonic() + pause >= until:
        raise problem from None
