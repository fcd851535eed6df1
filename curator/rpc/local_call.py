"""One call over a raw Unix socket: frames in and out, and what the shield needs of gRPC's context.

To the shield and the servicer it is a gRPC call. A frame that is none ends it in constant words.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from struct import Struct
from typing import Final, NoReturn, final

import grpc
from google.protobuf.message import DecodeError

from curator.errors import MalformedRequest
from protos.weir.v1 import local_pb2

_HEADER: Final = Struct(">BI")
_LARGEST_CALL: Final = 8192
_BUFFER: Final = 1 << 20
_NO_FRAME: Final = "the bytes are no frame of a step"


class CallGone(grpc.RpcError):
    """The other side has gone, or the call was cancelled."""


class CallAborted(Exception):
    """The call ends with an error that was said to the other side."""


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
        self._is_cancelled = False

    def metadata(self) -> dict[str, str | bytes]:
        """Return how the call begins; nothing if it does not begin as it should."""
        try:
            kind, data = self._frame(_LARGEST_CALL) or (0, b"")
            begun = local_pb2.LocalCall.FromString(data)
        except (DecodeError, MalformedRequest):
            return {}
        is_call = kind == local_pb2.LOCAL_FRAME_CALL and begun.authorization
        return {"authorization": begun.authorization} if is_call else {}

    def messages(self) -> Iterator[bytes]:
        """Yield the bytes of each message until the other side ends the call.

        Raises:
            MalformedRequest: If a frame is none, or too large.
        """
        while (frame := self._frame(self._largest)) is not None:
            kind, data = frame
            if kind != local_pb2.LOCAL_FRAME_STEP:
                raise MalformedRequest(_NO_FRAME)
            yield data
            del frame, data  # nothing is kept while the next one is waited for

    def answer(self, data: bytes) -> None:
        """Send one encoded answer.

        Raises:
            CallGone: If nobody takes it.
        """
        self._send(local_pb2.LOCAL_FRAME_STEP, data)

    def end(self, code: grpc.StatusCode = grpc.StatusCode.OK, text: str = "") -> None:
        """Say how the call ended, as far as anybody listens."""
        number: int = code.value[0]
        end = local_pb2.LocalEnd(code=number, text=text, metadata=self._trailing)
        with suppress(CallGone):
            self._send(local_pb2.LOCAL_FRAME_END, end.SerializeToString())

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

    def _frame(self, largest: int) -> tuple[int, bytes] | None:
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

    def _bytes(self, number: int, *, is_rest: bool = False) -> bytes:
        """Return so many bytes, or none at the end between two frames.

        Raises:
            CallGone: If the other side ends in the middle, or the call was cancelled.
        """
        data = b""
        try:
            while len(data) < number:
                more = self._connection.recv(number - len(data), socket.MSG_WAITALL)
                if not more:
                    break
                data = data + more if data else more
        except OSError:
            raise CallGone from None
        if len(data) < number and (data or is_rest or self._is_cancelled):
            raise CallGone
        return data

    def _send(self, kind: int, data: bytes) -> None:
        header = _HEADER.pack(kind, len(data))
        try:
            sent = self._connection.sendmsg((header, data))
            if sent < len(header) + len(data):
                self._connection.sendall(memoryview(header + data)[sent:])
        except OSError:
            raise CallGone from None
