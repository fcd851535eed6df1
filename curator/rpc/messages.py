"""The messages of one call: awaited with patience, from a caller who is still known, then parsed.

gRPC itself would answer INTERNAL for bytes that are not a message; here it is the caller's mistake.
A message counts in its caller's room until the next one is asked for, when its answer was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, final

import grpc
from google.protobuf.message import DecodeError

from curator.errors import MalformedRequest, Unauthenticated, Unavailable
from curator.rpc.byte_limits import Room
from curator.rpc.identity import Authenticator, Credentials
from curator.rpc.open_calls import CallDeadlines
from curator.service.caller import Caller


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
        raw: Iterator[bytes],
        context: grpc.ServicerContext,
        parse: Callable[[bytes], Any],
        seconds: Callable[[], float],
    ) -> Generator[Any]:
        """Yield parsed messages while the credentials hold: revoking ends an open stream too.

        Args:
            raw: The bytes of each message.
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


def _parsed(data: bytes, parse: Callable[[bytes], Any]) -> Any:
    """Return the message that bytes are.

    Raises:
        MalformedRequest: If they are none.
    """
    try:
        return parse(data)
    except DecodeError:
        msg = "the bytes are not a message of this method"
        raise MalformedRequest(msg) from None
