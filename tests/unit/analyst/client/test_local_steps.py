"""The client's end of the socket for steps, against a curator that is played here."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from struct import Struct

import grpc
import pytest

from analyst.client.local_steps import LocalSteps, StepsEnded
from analyst.client.refusals import to_exception
from analyst.client.stream import Asked
from analyst.errors import CuratorUnreachable, ProtocolError, StepConflict
from protos.weir.v1 import local_pb2, refusal_pb2, release_pb2, tensor_pb2

HEADER = Struct(">BI")
LENGTH = Struct(">I")
CALL, STEP, END, ROWS = 1, 2, 3, 4


def exactly(connection: socket.socket, number: int) -> bytes:
    data = b""
    while len(data) < number:
        more = connection.recv(number - len(data))
        assert more
        data += more
    return data


class Played:
    """Takes one connection and does as it is told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(1)
        self.taken: list[tuple[int, bytes]] = []

    def answering(self, answer: Callable[[socket.socket], None]) -> threading.Thread:
        def serve() -> None:
            connection, _ = self.listener.accept()
            with connection:
                connection.settimeout(10)
                self.taken.append(self.take(connection))
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        return thread

    @staticmethod
    def take(connection: socket.socket) -> tuple[int, bytes]:
        kind, length = HEADER.unpack(exactly(connection, HEADER.size))
        return kind, exactly(connection, length)

    @staticmethod
    def say(connection: socket.socket, kind: int, data: bytes) -> None:
        connection.sendall(HEADER.pack(kind, len(data)) + data)


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    played = Played(tmp_path / "s")
    with closing(played.listener):
        yield played


def request(step: int, size: int = 10) -> Asked:
    message = release_pb2.StepRequest(run_id="r", step=step, images=tensor_pb2.Tensor(shape=[size]))
    return Asked(message=message, rows=bytes(size))


def rows(numbers: bytes, message: bytes) -> bytes:
    return numbers + message + LENGTH.pack(len(message))


def parted(data: bytes) -> tuple[bytes, bytes]:
    place = len(data) - LENGTH.size - LENGTH.unpack(data[-LENGTH.size :])[0]
    return data[:place], data[place : -LENGTH.size]


def test_one_request_is_on_its_way_at_a_time(played: Played) -> None:
    """Neither side could read if both wrote more than there is room for: here that never is."""
    large = 8 << 20
    seen: list[int] = []

    def answer(connection: socket.socket) -> None:
        for _ in range(3):
            kind, data = played.take(connection)
            numbers, message = parted(data)
            assert (kind, numbers) == (ROWS, bytes(large))
            asked = release_pb2.StepRequest.FromString(message)
            assert (list(asked.images.shape), asked.images.data) == ([large], b"")
            seen.append(asked.step)
            assert not select.select([connection], [], [], 0.05)[0]
            answered = release_pb2.StepResponse(step=asked.step)
            played.say(connection, ROWS, rows(bytes(large), answered.SerializeToString()))

    thread = played.answering(answer)
    with closing(LocalSteps(played.path, "Bearer t", 10, 0)) as steps:
        for step in (1, 2, 3):
            steps.send(request(step, large))
        assert steps.num_waiting == 3
        answers = [steps.receive() for _ in range(3)]
        assert [one.message.step for one in answers] == [1, 2, 3]
        assert all(bytes(one.numbers or b"") == bytes(large) for one in answers)
        assert steps.num_waiting == 0
    thread.join(10)
    assert seen == [1, 2, 3]
    ((kind, call),) = played.taken
    assert kind == CALL
    assert local_pb2.LocalCall.FromString(call).authorization == "Bearer t"


def test_large_requests_go_in_pieces(played: Played) -> None:
    asked = request(1, 5000)
    whole = asked.whole()
    assert whole.images.data == bytes(5000)
    pieces: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        while sum(map(len, pieces)) < whole.ByteSize():
            part = release_pb2.StepRequest.FromString(played.take(connection)[1]).part
            assert part.total_bytes == whole.ByteSize()
            pieces.append(part.data)
        played.say(connection, STEP, release_pb2.StepResponse(step=1).SerializeToString())

    thread = played.answering(answer)
    with closing(LocalSteps(played.path, "", 10, 1000)) as steps:
        steps.send(asked)
        assert steps.receive().message.step == 1
    thread.join(10)
    assert b"".join(pieces) == whole.SerializeToString()
    assert max(map(len, pieces)) == 1000


def test_a_refusal_reads_like_one_of_grpc(played: Played) -> None:
    refusal = refusal_pb2.Refusal(reason="STEP_CONFLICT", message="m", remedy="r")
    end = local_pb2.LocalEnd(code=3, text="t")
    end.metadata["weir-refusal-bin"] = refusal.SerializeToString()
    thread = played.answering(lambda one: played.say(one, END, end.SerializeToString()))
    steps = LocalSteps(played.path, "", 10, 0)
    with closing(steps), pytest.raises(StepsEnded) as caught:
        steps.receive()
    thread.join(10)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert isinstance(to_exception(caught.value, "local:/x"), StepConflict)


@pytest.mark.parametrize(
    "said",
    [
        *((CALL, b""), (77, b""), (STEP, b"\xff" * 7), (END, b"\xff" * 7)),
        *((ROWS, b""), (ROWS, b"\0\0\0"), (ROWS, LENGTH.pack(1)), (ROWS, rows(b"", b"\xff" * 7))),
    ],
)
def test_what_is_no_answer_is_told_apart(played: Played, said: tuple[int, bytes]) -> None:
    thread = played.answering(lambda one: played.say(one, *said))
    steps = LocalSteps(played.path, "", 10, 0)
    with closing(steps), pytest.raises(ProtocolError, match="does not speak as a curator"):
        steps.receive()
    thread.join(10)


@pytest.mark.parametrize("sent", [b"", b"\x02", HEADER.pack(STEP, 100) + b"half"])
def test_a_connection_that_ends_is_to_be_asked_again(played: Played, sent: bytes) -> None:
    thread = played.answering(lambda one: one.sendall(sent))
    steps = LocalSteps(played.path, "", 10, 0)
    with closing(steps), pytest.raises(CuratorUnreachable, match="ended the steps"):
        steps.receive()
    thread.join(10)


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(CuratorUnreachable, match="No curator takes steps at"):
        LocalSteps(tmp_path / "s", "", 1, 0)
