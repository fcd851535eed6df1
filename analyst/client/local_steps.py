"""The steps of one run over a socket of a curator on this machine, without gRPC."""

from __future__ import annotations

import socket
from collections import deque
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any, Final, final

import grpc
from google.protobuf.message import DecodeError

from analyst.client.stream import Answered, Asked, pieces
from analyst.errors import CuratorSilent, CuratorUnreachable, ProtocolError
from protos.weir.v1 import local_pb2, release_pb2

_HEADER: Final = Struct(">BI")
_LENGTH: Final = Struct(">I")
_SECONDS: Final = Struct("@ll")  # and microseconds, as the operating system takes them
_BUFFER: Final = 1 << 20
_REMEDY: Final = "Send the same step again."
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class StepsEnded(grpc.RpcError):
    """The curator ended the steps with an error, which reads like one of gRPC."""

    def __init__(self, end: local_pb2.LocalEnd) -> None:
        """Take what the curator said."""
        super().__init__()
        self._end = end

    def code(self) -> grpc.StatusCode:
        """Return the status."""
        return _CODES.get(self._end.code, grpc.StatusCode.UNKNOWN)

    def trailing_metadata(self) -> tuple[Any, ...]:
        """Return pairs of key and bytes."""
        return tuple(self._end.metadata.items())


@final
class LocalSteps:
    """One open connection. See `StepStream`, whose place it takes.

    One request is on its way at a time; those that were sent meanwhile wait here and leave when the
    answer before them has come. So neither side ever waits for the other to read.
    """

    def __init__(self, path: Path, authorization: str, seconds: float, part_bytes: int) -> None:
        """Connect.

        Args:
            path: Of the curator's socket.
            authorization: As gRPC's metadata has it.
            seconds: How long an answer may take.
            part_bytes: A larger request goes in pieces of so many bytes; 0 sends all whole.

        Raises:
            CuratorUnreachable: If nobody takes the connection.
        """
        self._path = path
        self._seconds = seconds
        self._part_bytes = part_bytes
        self._waiting: deque[Asked] = deque()
        self.num_waiting = 0  # steps that were sent and not answered
        self._connection = socket.socket(socket.AF_UNIX)
        limit = _SECONDS.pack(int(seconds), round(seconds % 1 * 1e6))
        for option, value in (
            (socket.SO_RCVTIMEO, limit),  # of the system: Python's would look before each reading
            (socket.SO_SNDTIMEO, limit),
            (socket.SO_SNDBUF, _BUFFER),
            (socket.SO_RCVBUF, _BUFFER),
        ):
            self._connection.setsockopt(socket.SOL_SOCKET, option, value)
        call = local_pb2.LocalCall(authorization=authorization)
        try:
            self._connection.connect(str(path))
            self._write(local_pb2.LOCAL_FRAME_CALL, call.SerializeToString())
        except (OSError, CuratorUnreachable):
            self._connection.close()
            msg = f"No curator takes steps at {path}."
            raise CuratorUnreachable(msg, "Check that 'curator serve' runs.") from None

    def send(self, asked: Asked) -> None:
        """Send a step, or let it wait for the answers before it."""
        self.num_waiting += 1
        if self.num_waiting > 1:
            self._waiting.append(asked)
        else:
            self._send(asked)

    def receive(self) -> Answered:
        """Wait for the answer to the oldest step that has none, and send the next one.

        Raises:
            CuratorSilent: If no answer came in time.
            CuratorUnreachable: If the curator has gone.
            ProtocolError: If it is no answer.
            StepsEnded: As the curator refused.
        """
        kind, data = self._read()
        try:
            if kind == local_pb2.LOCAL_FRAME_END:
                raise StepsEnded(local_pb2.LocalEnd.FromString(data))
            answer = self._answer(kind, data)
        except DecodeError:
            raise self._no_answer() from None
        self.num_waiting -= 1
        if self._waiting:
            self._send(self._waiting.popleft())
        return answer

    def look(self) -> None:
        """Find out whether a curator answers here, without a step; then nothing can be sent."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
        self._read()

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):  # wakes a reader in another thread
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _answer(self, kind: int, data: bytes) -> Answered:
        """Return the answer that a frame is.

        Raises:
            ProtocolError: If it is none.
        """
        if kind == local_pb2.LOCAL_FRAME_STEP:
            return Answered(message=release_pb2.StepResponse.FromString(data))
        rest = len(data) - _LENGTH.size
        if kind != local_pb2.LOCAL_FRAME_ROWS or rest < 0:
            raise self._no_answer()
        place = rest - _LENGTH.unpack_from(data, rest)[0]
        if place < 0:
            raise self._no_answer()
        message = release_pb2.StepResponse.FromString(data[place:rest])
        return Answered(message=message, numbers=memoryview(data)[:place])

    def _send(self, asked: Asked) -> None:
        message = asked.message.SerializeToString()
        with suppress(CuratorUnreachable):  # it has said why, or reading finds that it is gone
            if not self._part_bytes or len(asked.rows) + len(message) <= self._part_bytes:
                length = _LENGTH.pack(len(message))
                self._write(local_pb2.LOCAL_FRAME_ROWS, asked.rows, message, length)
                return
            for piece in pieces(asked.whole().SerializeToString(), self._part_bytes):
                self._write(local_pb2.LOCAL_FRAME_STEP, piece.SerializeToString())

    def _write(self, kind: int, *data: bytes | memoryview) -> None:
        """Send one frame.

        Raises:
            CuratorUnreachable: If it cannot be sent.
        """
        frame = (_HEADER.pack(kind, sum(map(len, data))), *data)
        try:
            sent = self._connection.sendmsg(frame)
            if sent < sum(map(len, frame)):
                self._connection.sendall(memoryview(b"".join(frame))[sent:])
        except OSError:
            raise self._gone() from None

    def _read(self) -> tuple[int, bytes]:
        kind, length = _HEADER.unpack(self._bytes(_HEADER.size))
        return kind, self._bytes(length)

    def _bytes(self, number: int) -> bytes:
        """Return so many bytes.

        Raises:
            CuratorSilent: If they do not come in time.
            CuratorUnreachable: If they never come.
        """
        data = b""
        while len(data) < number:
            try:
                more = self._connection.recv(number - len(data), socket.MSG_WAITALL)
            except BlockingIOError:
                msg = f"The curator at {self._path} did not answer in {self._seconds:g} seconds."
                raise CuratorSilent(msg, _REMEDY) from None
            except OSError:
                raise self._gone() from None
            if not more:
                raise self._gone()
            data = data + more if data else more
        return data

    def _gone(self) -> CuratorUnreachable:
        return CuratorUnreachable(f"The curator at {self._path} ended the steps.", _REMEDY)

    def _no_answer(self) -> ProtocolError:
        msg = f"What listens at {self._path} does not speak as a curator does."
        return ProtocolError(msg, "Check that both sides have the same version.")
