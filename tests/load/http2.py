"""Just enough HTTP/2 to be a caller whom gRPC's own client would not let you be."""

from __future__ import annotations

import select
import socket
import struct
from contextlib import suppress
from typing import Final

from tests.load.harness import Target

_FIRST_WINDOW: Final = 65_535
_FRAME: Final = 16_384
_AT_ONCE: Final = 1 << 20
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _WINDOW = 0, 1, 3, 4, 6, 8
_END_STREAM: Final = 1  # of headers; the same bit acknowledges settings and pings
_END_HEADERS: Final = 4
_INITIAL_WINDOW: Final = 4
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_HEAD: Final = 9


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _text(words: str) -> bytes:
    """Encode a text of HPACK, without Huffman's code."""
    raw = words.encode()
    if len(raw) < 127:
        return bytes([len(raw)]) + raw
    rest, left = b"\x7f", len(raw) - 127
    while left >= 128:
        rest, left = rest + bytes([left % 128 + 128]), left // 128
    return rest + bytes([left]) + raw


class Connection:
    """One HTTP/2 connection with many calls, each with bytes to send; it takes no answer.

    Without a word of it that it has room, a call's other side may send 64 KiB.
    """

    def __init__(self, target: Target, name: str) -> None:
        tls = target.tls()
        tls.set_alpn_protocols(["h2"])
        plain = socket.create_connection(("localhost", target.grpc_port), 10)
        self._socket = tls.wrap_socket(plain, server_hostname="localhost")
        self._socket.settimeout(5)
        self._token = dict(target.metadata(name))["authorization"]
        self._windows = {0: _FIRST_WINDOW}
        self._initial = _FIRST_WINDOW
        self._buffer = b""
        self._next_stream = 1
        self.left: dict[int, memoryview] = {}
        self.sent = self.ended = 0
        self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0))

    def open(self, content: bytes, method: str = "StreamSteps") -> None:
        """Begin a call that has these bytes to send and never ends its side."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        headers = b"".join(
            b"\x00" + _text(name) + _text(value)
            for name, value in (
                (":method", "POST"),
                (":scheme", "https"),
                (":path", f"/weir.v1.WeirService/{method}"),
                (":authority", "localhost"),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("authorization", self._token),
            )
        )
        self._windows[stream] = self._initial
        self.left[stream] = memoryview(content)
        self._socket.sendall(_frame(_HEADERS, _END_HEADERS, stream, headers))

    def pump(self) -> None:
        """Send what the windows allow and take what has come; wait a little if there is nothing."""
        moved = False
        for stream, left in list(self.left.items()):
            room = min(len(left), _AT_ONCE, self._windows[stream], self._windows[0])
            if room > 0 and select.select([], [self._socket], [], 0)[1]:
                frames = (bytes(left[at : min(at + _FRAME, room)]) for at in range(0, room, _FRAME))
                self._socket.sendall(b"".join(_frame(_DATA, 0, stream, one) for one in frames))
                self._windows[stream] -= room
                self._windows[0] -= room
                self.sent += room
                self.left[stream] = left[room:]
                moved = True
        self._read(0.0 if moved else 0.02)

    def _read(self, seconds: float) -> None:
        while self._socket.pending() or select.select([self._socket], [], [], seconds)[0]:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError
            self._buffer += data
            seconds = 0.0
        while len(self._buffer) >= _FRAME_HEAD:
            end = _FRAME_HEAD + int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < end:
                return
            kind, flags = self._buffer[3], self._buffer[4]
            stream = int.from_bytes(self._buffer[5:_FRAME_HEAD], "big")
            payload, self._buffer = self._buffer[_FRAME_HEAD:end], self._buffer[end:]
            self._take(kind, flags, stream, payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _WINDOW and stream in self._windows:
            self._windows[stream] += int.from_bytes(payload, "big")
        elif kind in {_PING, _SETTINGS} and not flags & _END_STREAM:
            if kind == _SETTINGS:
                self._take_settings(payload)
                payload = b""
            self._socket.sendall(_frame(kind, _END_STREAM, 0, payload))
        elif kind == _RESET or (kind == _HEADERS and flags & _END_STREAM):
            self.ended += self.left.pop(stream, None) is not None
            self._windows.pop(stream, None)

    def _take_settings(self, payload: bytes) -> None:
        for place in range(0, len(payload), 6):
            key, value = struct.unpack(">HI", payload[place : place + 6])
            if key == _INITIAL_WINDOW:
                for stream in self.left:
                    self._windows[stream] += value - self._initial
                self._initial = value

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()


def message(payload: bytes, length: int | None = None) -> bytes:
    """Return the bytes of one gRPC message, or of the beginning of a longer one."""
    return b"\x00" + struct.pack(">I", len(payload) if length is None else length) + payload
