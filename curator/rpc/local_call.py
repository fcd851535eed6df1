"""One call over a raw Unix socket: frames in and out, and what the shield needs of gRPC's context.

To the shield and the servicer it is a gRPC call. A frame that is none ends it in constant words.

The numbers of a step may come beside its message, and its answer's then go the same way. They are
read into memory of their own, where the caller reaches nothing, and are sent from where they are.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import Final, NoReturn, Self, final

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from curator.errors import MalformedRequest
from protos.weir.v1 import local_pb2

_HEADER: Final = Struct(">BI")
_LENGTH: Final = Struct(">I")
_LARGEST_CALL: Final = 8192
_BUFFER: Final = 1 << 20
_MOST_BESIDE: Final = 1024
_NO_FRAME: Final = "the bytes are no frame of a step"


class CallGone(grpc.RpcError):
    """The other side has gone, or the call was cancelled."""


class CallAborted(Exception):
    """The call ends with an error that was said to the other side."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """An encoded message and the numbers beside it; `num_bytes` are those of the frame."""

    numbers: Sequence[memoryview]
    message: bytes | memoryview
    num_bytes: int

    @classmethod
    def of(cls, numbers: Sequence[memoryview], message: bytes) -> Self:
        """Return what will be sent."""
        return cls(
            numbers, message, sum(one.nbytes for one in numbers) + len(message) + _LENGTH.size
        )

    def __len__(self) -> int:
        """Return the bytes of all."""
        return self.num_bytes


@final
class LocalCall:
    """What the shield and the servicer use of a `grpc.ServicerContext`, for one connection."""

    def __init__(self, connection: socket.socket, largest_message: int) -> None:
        """Take an open connection.

        Args:
            connection: Blocking; a call that waits too long is cancelled from another thread.
            largest_message: Most bytes of one frame.
        """
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        self._connection = connection
        self._largest = largest_message
        self._trailing: Mapping[str, bytes] = {}
        self.came_with_rows = False  # the last message did, and its answer is to go like it
        self._is_cancelled = False

    def metadata(self) -> dict[str, str | bytes]:
        """Return how the call begins; nothing if it does not begin as it should."""
        try:
            kind, data = self._frame(_LARGEST_CALL) or (0, memoryview(b""))
            begun = local_pb2.LocalCall.FromString(data)  # type: ignore[arg-type]  # any buffer will do; the stubs do not know
        except (DecodeError, MalformedRequest):
            return {}
        is_call = kind == local_pb2.LOCAL_FRAME_CALL and begun.authorization
        return {"authorization": begun.authorization} if is_call else {}

    def messages(self) -> Iterator[memoryview | Rows]:
        """Yield the bytes of each message until the other side ends the call.

        Raises:
            MalformedRequest: If a frame is none, or too large.
        """
        while (frame := self._frame(self._largest)) is not None:
            kind, data = frame
            self.came_with_rows = kind == local_pb2.LOCAL_FRAME_ROWS
            if self.came_with_rows:
                yield _with_rows(data)
            elif kind == local_pb2.LOCAL_FRAME_STEP:
                yield data
            else:
                raise MalformedRequest(_NO_FRAME)
            del frame, data  # nothing is kept while the next one is waited for

    def answer(self, answer: bytes | Rows) -> None:
        """Send one encoded answer.

        Raises:
            CallGone: If nobody takes it.
        """
        if isinstance(answer, bytes):
            self._send(local_pb2.LOCAL_FRAME_STEP, len(answer), answer)
            return
        length = _LENGTH.pack(len(answer.message))
        kind = local_pb2.LOCAL_FRAME_ROWS
        self._send(kind, len(answer), *answer.numbers, answer.message, length)

    def end(self, code: grpc.StatusCode = grpc.StatusCode.OK, text: str = "") -> None:
        """Say how the call ended, as far as anybody listens."""
        number: int = code.value[0]
        end = local_pb2.LocalEnd(code=number, text=text, metadata=self._trailing)
        with suppress(CallGone):
            data = end.SerializeToString()
            self._send(local_pb2.LOCAL_FRAME_END, len(data), data)

    def auth_context(self) -> dict[str, Iterable[bytes]]:
        """See gRPC: no certificate comes this way."""
        return {}

    def time_remaining(self) -> None:
        """See gRPC: the caller says no deadline."""

    def set_trailing_metadata(self, trailing: Iterable[tuple[str, bytes]]) -> None:
        """See gRPC."""
        self._trailing = dict(trailing)

    def abort(self, code: grpc.StatusCode, text: str) -> NoReturn:
        """See gRPC.

        Raises:
            CallAborted: Always.
        """
        self.end(code, text)
        raise CallAborted

    def cancel(self) -> None:
        """End the call from another thread: whoever reads or writes is told that it is gone."""
        self._is_cancelled = True
        with suppress(OSError):  # it has ended by itself
            self._connection.shutdown(socket.SHUT_RDWR)

    def _frame(self, largest: int) -> tuple[int, memoryview] | None:
        """Return the next frame; None if there is no other.

        Raises:
            MalformedRequest: If it says to be too large; what follows is not read.
        """
        header = self._bytes(_HEADER.size)
        if not header:
            return None
        kind, length = _HEADER.unpack(header)
        if length > largest:
            raise MalformedRequest(_NO_FRAME)
        return kind, self._bytes(length, is_rest=True)

    def _bytes(self, number: int, *, is_rest: bool = False) -> memoryview:
        """Return so many bytes, or none at the end between two frames.

        Raises:
            CallGone: If the other side ends in the middle, or the call was cancelled.
        """
        data, here = np.empty(number, np.uint8).data, 0
        try:
            while here < number:
                more = self._connection.recv_into(data[here:], 0, socket.MSG_WAITALL)
                if not more:
                    break
                here += more
        except OSError:
            raise CallGone from None
        if here < number and (here or is_rest or self._is_cancelled):
            raise CallGone
        return data[:here]

    def _send(self, kind: int, length: int, *data: bytes | memoryview) -> None:
        """Send one frame.

        Raises:
            CallGone: If nobody takes it.
        """
        header = _HEADER.pack(kind, length)
        try:
            sent = self._connection.sendmsg((header, *data))
            if sent < len(header) + length:
                whole = b"".join((header, *data))
                self._connection.sendall(memoryview(whole)[sent:])
        except OSError:
            raise CallGone from None


def _with_rows(data: memoryview) -> Rows:
    """Return the parts of a frame of numbers and a message.

    Raises:
        MalformedRequest: If its length is not that of any.
    """
    rest = len(data) - _LENGTH.size
    if rest < 0:
        raise MalformedRequest(_NO_FRAME)
    place = rest - _LENGTH.unpack_from(data, rest)[0]
    if place < 0:
        raise MalformedRequest(_NO_FRAME)
    rows = data[:place]
    if rest - place > _MOST_BESIDE + place // 8:  # an answer keeps its rows, and no more than those
        rows = np.frombuffer(rows, np.uint8).copy().data
    return Rows((rows,), data[place:rest], len(data))
