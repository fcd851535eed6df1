"""Frames of a step whose rows come beside its message: taken apart, and what stays of them."""

from __future__ import annotations

import socket
from struct import Struct
from typing import Any

import numpy as np
import pytest

from curator.errors import MalformedRequest
from curator.rpc.local_call import CallGone, LocalCall, Rows
from protos.weir.v1 import local_pb2

HEADER, LENGTH = Struct(">BI"), Struct(">I")
MOST = 1 << 20


def with_rows(rows: bytes, message: bytes) -> bytes:
    data = rows + message + LENGTH.pack(len(message))
    return HEADER.pack(local_pb2.LOCAL_FRAME_ROWS, len(data)) + data


def taken(sent: bytes) -> Rows | memoryview:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        call = LocalCall(ours, MOST)
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        return next(call.messages())


def test_a_frame_is_taken_apart() -> None:
    got = taken(with_rows(b"r" * 80, b"message"))
    assert isinstance(got, Rows)
    assert [bytes(one) for one in got.numbers] == [b"r" * 80]
    assert bytes(got.message) == b"message"
    assert len(got) == 80 + 7 + 4


@pytest.mark.parametrize("message_bytes", [0, 400, 5000, 100_000])
def test_rows_keep_hardly_more_memory_than_their_own(message_bytes: int) -> None:
    """Kept answers are counted by their rows: what a caller wrote beside them must not stay."""
    rows = 8000
    got = taken(with_rows(bytes(rows), bytes(message_bytes)))
    assert isinstance(got, Rows)
    held: Any = got.numbers[0].obj
    assert rows <= held.nbytes <= rows + rows // 8 + 1024 + LENGTH.size


def test_rows_can_be_written_to_and_begin_where_numbers_may() -> None:
    got = taken(with_rows(bytes(4000), b"m"))
    assert isinstance(got, Rows)
    numbers = np.frombuffer(got.numbers[0], "<f4")
    assert numbers.flags.writeable
    assert numbers.flags.aligned


@pytest.mark.parametrize("data", [b"", b"\0\0\0", LENGTH.pack(1), b"x" * 10 + LENGTH.pack(11)])
def test_lengths_that_do_not_fit_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedRequest, match="no frame"):
        taken(HEADER.pack(local_pb2.LOCAL_FRAME_ROWS, len(data)) + data)


def test_a_frame_that_says_to_be_too_large_is_not_read() -> None:
    with pytest.raises(MalformedRequest, match="no frame"):
        taken(HEADER.pack(local_pb2.LOCAL_FRAME_ROWS, MOST + 1))


def test_a_frame_that_breaks_off_ends_the_call() -> None:
    with pytest.raises(CallGone):
        taken(with_rows(bytes(100), b"m")[:-1])


def test_numbers_are_sent_from_where_they_are() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    numbers = [np.arange(6, dtype="<i4").reshape(2, 3), np.arange(2, dtype="<i8")]
    with ours, theirs:
        LocalCall(ours, MOST).answer(Rows.of([one.data for one in numbers], b"message"))
        ours.shutdown(socket.SHUT_WR)
        said = b""
        while more := theirs.recv(1 << 16):
            said += more
    assert said == with_rows(b"".join(one.tobytes() for one in numbers), b"message")
