"""The messages of one call: awaited with patience, from a caller who is still known, then parsed.

gRPC itself would answer INTERNAL for bytes that are not a message; here it is the caller's mistake.
A message counts in its caller's room until the next one is asked for, when its answer was taken.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

import grpc
from google.protobuf.message import DecodeError

from curator.errors import MalformedRequest, Unauthenticated, Unavailable
from curator.rpc.call_limits import LARGEST_MESSAGE, CallDeadlines, Room
from curator.rpc.identity import Authenticator, Credentials
from curator.service.caller import Caller
from protos.weir.v1 import release_pb2

PART_BYTES: Final = LARGEST_MESSAGE - 4096  # what is around a piece is smaller
SLOWEST: Final = 1 << 18  # bytes a second
PAUSE_SECONDS: Final = 30.0
_UNFIT: Final = (
    "the pieces of a request do not fit: each has bytes, they have total_bytes together, and are "
    "one encoded StepRequest without a piece"
)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StepWithRows:
    """A step whose images or features came beside its message, in memory that is this step's."""

    message: release_pb2.StepRequest
    rows: memoryview


AnyStep: TypeAlias = release_pb2.StepRequest | StepWithRows


def seconds_for(num_bytes: int) -> float:
    """Return how long the other side may take to send or to take so many bytes."""
    return PAUSE_SECONDS + num_bytes / SLOWEST


@final
class Parts:
    """Joins the pieces of one stream's requests."""

    def __init__(
        self,
        room: Room,
        caller: Caller,
        most_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take where bytes are counted, for whom, the largest request, and a clock in seconds."""
        self._room = room
        self._caller = caller
        self._most = most_bytes
        self._clock = clock
        self._ends_at = math.inf

    def seconds(self, idle: float) -> float:
        """Return how long to wait for the next message.

        Args:
            idle: How long while no request has begun.
        """
        return max(0.0, min(idle, self._ends_at - self._clock()))

    def joined(self, messages: Iterator[AnyStep]) -> Generator[AnyStep]:
        """Yield whole requests.

        Raises:
            MalformedRequest: If pieces do not make a request, or one that is too large.
            TooManyBytes: If there is no room for it; nothing was charged.
        """
        for message in messages:
            if isinstance(message, StepWithRows) or not message.HasField("part"):
                yield message
                del message  # nothing is kept while the next one is waited for
                continue
            total = message.part.total_bytes
            if not 1 <= total <= self._most:
                msg = f"a request may have at most {self._most} bytes here (limits.max_message_mib)"
                raise MalformedRequest(msg, "part.total_bytes")
            with self._room.held(self._caller, total):
                yield self._whole(message, messages)

    def _whole(
        self, first: release_pb2.StepRequest, messages: Iterator[AnyStep]
    ) -> release_pb2.StepRequest:
        """Take the other pieces of a request.

        Raises:
            MalformedRequest: If they do not make a request.
        """
        total, message, here = first.part.total_bytes, first, 0
        content = bytearray(total)  # pages that nothing was written to take no memory
        self._ends_at = self._clock() + seconds_for(total)
        while True:
            data = message.part.data
            if message.part.total_bytes != total or not 0 < len(data) <= total - here:
                raise MalformedRequest(_UNFIT, "part")
            content[here : here + len(data)] = data
            here += len(data)
            message.Clear()  # loops and gRPC hold it
            del data
            if here == total:
                break
            following = next(messages, None)
            if not isinstance(following, release_pb2.StepRequest):
                raise MalformedRequest(_UNFIT, "part")
            message = following
        self._ends_at = math.inf
        try:
            request = release_pb2.StepRequest.FromString(content)  # type: ignore[arg-type]  # any buffer will do; the stubs do not know
        except DecodeError:
            raise MalformedRequest(_UNFIT, "part") from None
        if request.HasField("part"):
            raise MalformedRequest(_UNFIT, "part")
        return request


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Messages:
    """What a call's messages are checked with."""

    authenticator: Authenticator
    patience: CallDeadlines
    room: Room
    credentials: Credentials
    caller: Caller

    def received(
        self,
        raw: Iterator[Any],
        context: grpc.ServicerContext,
        parse: Callable[[Any], Any],
        seconds: Callable[[], float],
    ) -> Generator[Any]:
        """Yield parsed messages while the credentials hold: revoking ends an open stream too.

        Args:
            raw: The bytes of each message, or whatever has a length and can be parsed.
            context: Of the call.
            parse: From bytes to a message.
            seconds: How long to wait for the next one.

        Raises:
            Unauthenticated: If the credentials are no longer valid, or another caller's now.
            MalformedRequest: If the bytes are not a message.
            TooManyBytes: If there is no room for them beside the caller's others.
            Unavailable: If the curator is being taken down; the next message is not taken.
        """
        while True:
            with self.patience.waiting(context, seconds()):
                if self.patience.is_stopping:  # a stream that never waits would go on
                    raise Unavailable
                data = next(raw, None)
            if data is None:
                return
            if self.authenticator.caller(self.credentials) != self.caller:
                raise Unauthenticated
            with self.room.held(self.caller, len(data)):
                message = _parsed(data, parse)
                del data
                yield message
                del message


def _parsed(data: Any, parse: Callable[[Any], Any]) -> Any:
    """Return the message that bytes are.

    Raises:
        MalformedRequest: If they are none.
    """
    try:
        return parse(data)
    except DecodeError:
        msg = "the bytes are not a message of this method"
        raise MalformedRequest(msg) from None
