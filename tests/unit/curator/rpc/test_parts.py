"""A request in pieces is put together exactly, within its room and its time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from analyst.client.stream import in_parts
from curator.errors import MalformedRequest, TooManyBytes
from curator.rpc.call_limits import LARGEST_MESSAGE, Room
from curator.rpc.messages import PART_BYTES, Parts, seconds_for
from curator.service.caller import Caller, Role
from protos.weir.v1 import release_pb2

ALICE = Caller("alice", Role.ANALYST)
MOST = 10_000


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def request(size: int = 1000, step: int = 1) -> release_pb2.StepRequest:
    return release_pb2.StepRequest(run_id="r", step=step, weights=bytes(range(256)) * (size // 256))


def piece(data: bytes, total: int) -> release_pb2.StepRequest:
    return release_pb2.StepRequest(part=release_pb2.Part(data=data, total_bytes=total))


def parts(room: Room | None = None, clock: Seconds | None = None) -> Parts:
    return Parts(room or Room(1 << 20), ALICE, MOST, clock or Seconds())


@pytest.mark.parametrize("part_bytes", [1, 7, 255, 1023, 1 << 20])
def test_what_a_client_sends_in_pieces_is_what_it_meant(part_bytes: int) -> None:
    meant = [request(1024, 1), request(256, 2), request(2048, 3)]
    sent = [message for one in meant for message in in_parts(one, part_bytes)]
    assert all(len(one.part.data) <= part_bytes for one in sent)
    assert list(parts().joined(iter(sent))) == meant


def test_a_curator_without_pieces_is_sent_whole_requests() -> None:
    assert list(in_parts(request(1 << 20), 0)) == [request(1 << 20)]


def test_the_largest_piece_fits_into_a_message() -> None:
    assert piece(bytes(PART_BYTES), (1 << 64) - 1).ByteSize() <= LARGEST_MESSAGE


ENCODED = request(512).SerializeToString()
HALF = len(ENCODED) // 2


@pytest.mark.parametrize(
    "sent",
    [
        [piece(b"", len(ENCODED))],
        [piece(ENCODED, 0)],
        [piece(ENCODED, MOST + 1)],
        [piece(ENCODED, len(ENCODED) - 1)],
        [piece(ENCODED[:HALF], len(ENCODED))],
        [piece(ENCODED[:HALF], len(ENCODED)), request()],
        [piece(ENCODED[:HALF], len(ENCODED)), piece(ENCODED[HALF:], len(ENCODED) + 1)],
        [piece(ENCODED[:HALF], len(ENCODED)), piece(ENCODED, len(ENCODED))],
        [piece(b"\xff" * 20, 20)],
        [piece(one := piece(b"a", 1).SerializeToString(), len(one))],
    ],
)
def test_pieces_that_make_no_request_are_a_mistake(sent: list[release_pb2.StepRequest]) -> None:
    room = Room(1 << 20)
    with pytest.raises(MalformedRequest):
        list(parts(room).joined(iter(sent)))
    with room.held(ALICE, 1 << 19):  # nothing of them is left
        pass


def test_its_whole_length_counts_before_a_second_piece_is_asked_for() -> None:
    taken = []

    def sent() -> Iterator[release_pb2.StepRequest]:
        for number in range(5):
            taken.append(number)
            yield piece(b"a", 1001)

    with pytest.raises(TooManyBytes):
        list(parts(Room(2000)).joined(sent()))
    assert taken == [0]


def test_it_counts_until_the_next_request_is_asked_for() -> None:
    room = Room(4 * len(ENCODED))
    joined = parts(room).joined(iter([piece(ENCODED, len(ENCODED))]))
    next(joined)
    with pytest.raises(TooManyBytes), room.held(ALICE, len(ENCODED) + 1):
        pass
    assert next(joined, None) is None
    with room.held(ALICE, 2 * len(ENCODED)):
        pass


def test_a_request_that_has_begun_has_a_time_for_its_end() -> None:
    clock, waits = Seconds(), list[float]()
    joining = parts(clock=clock)

    def sent() -> Iterator[release_pb2.StepRequest]:
        for one in (*in_parts(request(512), HALF), request(256)):
            waits.append(joining.seconds(900.0))
            clock.now += 10
            yield one

    assert len(list(joining.joined(sent()))) == 2
    begun = seconds_for(len(ENCODED))
    assert waits == [900.0, begun, *([begun - 10] if len(waits) == 4 else []), 900.0]
    clock.now = 1e6
    assert joining.seconds(900.0) == 900.0
