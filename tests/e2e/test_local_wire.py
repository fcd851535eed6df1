"""Steps over the socket for steps: for its owner alone, in the same words, bounded like a stream.

What holds for steps however they come is asked of both wires where it is asked: the tests that are
marked `OVER_BOTH_WIRES`.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

import analyst
from analyst.client.codec import encode_step
from analyst.client.local_steps import LocalSteps
from analyst.client.stream import Asked
from analyst.errors import CuratorUnreachable, StepsOverGrpc
from curator.config import CuratorConfig, GrpcSection, RestSection
from curator.identity.listen import PortUnavailable
from curator.process.bootstrap import create_curator
from curator.rpc import local_call, local_server, messages, shield
from curator.rpc.call_limits import CALLS_PER_CALLER, LARGEST_MESSAGE
from protos.weir.v1 import local_pb2, refusal_pb2, release_pb2, service_pb2_grpc
from tests.e2e.conftest import (
    EMBEDDING,
    SINKHORN,
    Local,
    batch,
    credentials,
    digits_folder,
    run_cli,
    socket_of,
    token,
)

pytestmark = [pytest.mark.e2e, pytest.mark.parametrize("wire", ["local"])]

HEADER = struct.Struct(">BI")
LENGTH = struct.Struct(">I")
CALL, STEP, END, ROWS = 1, 2, 3, 4


@contextmanager
def opened(local: Local) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(f"{local.curator.rpc.unix_socket}.steps")
        yield connection


def frame(kind: int, data: bytes) -> bytes:
    return HEADER.pack(kind, len(data)) + data


def call_of(local: Local, name: str = "alice") -> bytes:
    authorization = f"Bearer {token(local.folder, name)}"
    return frame(CALL, local_pb2.LocalCall(authorization=authorization).SerializeToString())


def ending(connection: socket.socket) -> local_pb2.LocalEnd:
    """Return how the curator ends the call, which must be all that it says."""
    said = b""
    with suppress(ConnectionResetError):  # what the curator did not read is lost; its words are not
        while more := connection.recv(1 << 16):
            said += more
    kind, length = HEADER.unpack_from(said)
    assert (kind, length) == (END, len(said) - HEADER.size)
    return local_pb2.LocalEnd.FromString(said[HEADER.size :])


def refusal(end: local_pb2.LocalEnd) -> refusal_pb2.Refusal:
    return refusal_pb2.Refusal.FromString(end.metadata["weir-refusal-bin"])


def step_of(run_id: str, step: int = 1) -> release_pb2.StepRequest:
    return encode_step(run_id, step, *batch()).whole()


def rows_of(asked: Asked, last: bytes = b"") -> bytes:
    """Return the frame of a step whose images, with other last bytes, come beside its message."""
    message = asked.message.SerializeToString()
    rows = bytes(asked.rows)
    beside = rows[: len(rows) - len(last)] + last
    return frame(ROWS, beside + message + LENGTH.pack(len(message)))


def entries(local: Local) -> int:
    return local.curator.ledger.head()[0]


def test_the_socket_is_for_its_owner_alone(local: Local) -> None:
    path = Path(f"{local.curator.rpc.unix_socket}.steps")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_uid == os.getuid()
    local.curator.rpc.drain(1.0)
    assert not path.exists()


def test_the_kernel_says_who_a_peer_is(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curator.rpc.local_server.os.getuid", lambda: os.geteuid() + 1)
    with opened(local) as connection, suppress(ConnectionError):
        connection.sendall(call_of(local))
        assert connection.recv(1) == b""  # no frame, no word


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a socket to another user")
def test_a_socket_is_given_to_the_user_that_the_steward_names(tmp_path: Path, wire: str) -> None:
    assert wire == "local"
    folder = digits_folder(tmp_path / "c")
    path = socket_of(folder)
    grpc_section = GrpcSection(port=0, unix_socket=str(path), unix_socket_user=12345)
    curator = create_curator(folder, CuratorConfig(grpc=grpc_section, rest=RestSection(port=0)))
    curator.start()
    try:
        for one in (path, path.with_name("g.sock.steps")):
            assert (one.stat().st_uid, stat.S_IMODE(one.stat().st_mode)) == (12345, 0o600)
        with opened(Local(folder=folder, curator=curator)) as connection:  # as the curator's user
            connection.sendall(frame(CALL, b""))
            assert refusal(ending(connection)).reason == "UNAUTHENTICATED"
    finally:
        curator.draining.set()
        curator.wait()


def test_a_socket_that_cannot_be_given_is_not_served(
    tmp_path: Path, wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wire == "local"

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chown", refuse)
    folder = digits_folder(tmp_path / "c")
    section = GrpcSection(port=0, unix_socket=str(socket_of(folder)), unix_socket_user=12345)
    with pytest.raises(PortUnavailable, match=r"CAP_CHOWN, or leave unix_socket_user out"):
        create_curator(folder, CuratorConfig(grpc=section, rest=RestSection(port=0)))
    assert not socket_of(folder).exists()


BEGINNINGS: dict[str, bytes] = {
    "no call": b"",
    "an empty call": frame(CALL, b""),
    "a step first": frame(STEP, b""),
    "a call that is too large": HEADER.pack(CALL, 1 << 20),
    "no message": frame(CALL, b"\xff" * 7),
    "a wrong token": frame(CALL, local_pb2.LocalCall(authorization="Bearer x").SerializeToString()),
    "HTTP": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("sent", BEGINNINGS.values(), ids=BEGINNINGS)
def test_who_shows_no_token_is_told_what_grpc_tells(local: Local, sent: bytes) -> None:
    with opened(local) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        said = ending(connection)
    with grpc.insecure_channel(f"unix:{local.curator.rpc.unix_socket}") as channel:
        stub = service_pb2_grpc.WeirServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            next(iter(stub.StreamSteps(iter([step_of("0" * 32)]))))
    told: Any = refused.value
    assert (said.code, said.text) == (told.code().value[0], told.details())
    assert dict(said.metadata).keys() == dict(told.trailing_metadata()).keys()
    assert refusal(said).reason == "UNAUTHENTICATED"


BAD_FRAMES: dict[str, bytes] = {
    "a call again": frame(CALL, b""),
    "an end": frame(END, b""),
    "no kind": frame(0, b"x"),
    "another kind": frame(255, b"x" * 100),
    "too large": HEADER.pack(STEP, LARGEST_MESSAGE + 1),
    "the largest length": HEADER.pack(STEP, 0xFFFFFFFF) + b"x" * 1000,
    "no message": frame(STEP, b"\xff" * 7),
    "text that is none": frame(STEP, b"\x0a\x02\xff\xfe"),
    "rows without a length": frame(ROWS, b"\0\0\0"),
    "rows without a message": frame(ROWS, LENGTH.pack(1)),
    "rows with half of a message": frame(ROWS, b"x" * 100 + LENGTH.pack(101)),
    "rows with the largest message": frame(ROWS, b"x" * 100 + LENGTH.pack(0xFFFFFFFF)),
    "rows beside no message": frame(ROWS, b"x" * 100 + b"\xff" * 7 + LENGTH.pack(7)),
}


@pytest.mark.parametrize("sent", BAD_FRAMES.values(), ids=BAD_FRAMES)
def test_a_bad_frame_ends_the_call_in_constant_words_and_changes_nothing(
    local: Local, sent: bytes
) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
        before = entries(local)
        with opened(local) as connection:
            connection.sendall(call_of(local) + sent)
            end = ending(connection)
        assert refusal(end).reason == "MALFORMED_REQUEST"
        assert end.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
        assert refusal(end).detail in {
            "the bytes are no frame of a step",
            "the bytes are not a message of this method",
        }
        assert entries(local) == before
        assert run.gradient(*batch()).shape == batch()[0].shape


def beside_nothing(asked: Asked) -> None:
    asked.message.ClearField("images")


def beside_themselves(asked: Asked) -> None:
    asked.message.images.data = bytes(asked.rows)


def beside_a_piece(asked: Asked) -> None:
    asked.message.Clear()
    asked.message.part.data, asked.message.part.total_bytes = b"x", 1


def beside_another_size(asked: Asked) -> None:
    asked.message.images.shape[0] += 1


@pytest.mark.parametrize(
    "change", [beside_nothing, beside_themselves, beside_a_piece, beside_another_size]
)
def test_rows_that_do_not_fit_their_message_are_refused(
    local: Local, change: Callable[[Asked], None]
) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
        before = entries(local)
        asked = encode_step(run.run_id, 1, *batch())
        change(asked)
        with opened(local) as connection:
            connection.sendall(call_of(local) + rows_of(asked))
            assert refusal(ending(connection)).reason in {"MALFORMED_REQUEST", "UNKNOWN_RUN"}
        assert entries(local) == before
        assert run.gradient(*batch()).shape == batch()[0].shape


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.0001])
def test_images_beside_their_message_are_checked(local: Local, value: float) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
        asked = encode_step(run.run_id, 1, *batch())
        last = struct.pack("<f", value)
        with opened(local) as connection:
            connection.sendall(call_of(local) + rows_of(asked, last))
            assert "must be finite and in" in refusal(ending(connection)).detail


def test_an_answer_comes_as_it_was_asked_for_and_is_the_same(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
    asked = encode_step(run.run_id, 1, *batch())
    with opened(local) as connection:
        connection.sendall(call_of(local) + rows_of(asked))
        kind, length = HEADER.unpack(connection.recv(HEADER.size, socket.MSG_WAITALL))
        beside = connection.recv(length, socket.MSG_WAITALL)
        assert kind == ROWS
        connection.sendall(frame(STEP, asked.whole().SerializeToString()))
        kind, length = HEADER.unpack(connection.recv(HEADER.size, socket.MSG_WAITALL))
        whole = release_pb2.StepResponse.FromString(connection.recv(length, socket.MSG_WAITALL))
        assert kind == STEP
    place = len(beside) - LENGTH.size - LENGTH.unpack(beside[-LENGTH.size :])[0]
    parted = release_pb2.StepResponse.FromString(beside[place : -LENGTH.size])
    numbers = b"".join(block.values.data for block in whole.gradient)
    assert numbers == beside[:place]
    for block in whole.gradient:
        block.values.ClearField("data")
    assert whole == parted


def test_a_frame_that_breaks_off_changes_nothing(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
        before = entries(local)
        whole = rows_of(encode_step(run.run_id, 1, *batch()))
        for length in (1, HEADER.size, len(whole) - 1):
            with opened(local) as connection:
                connection.sendall(call_of(local) + whole[:length])
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(1) == b""
        assert entries(local) == before
        assert run.next_step == 1


def test_a_request_in_pieces(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
        run._part_bytes = 1000
        assert run.gradient(*batch()).shape == batch()[0].shape


def test_one_caller_has_so_many_calls_open_over_both_wires(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
    sockets = [socket.socket(socket.AF_UNIX) for _ in range(CALLS_PER_CALLER + 3)]
    try:
        for one in sockets:
            one.settimeout(20)
            one.connect(f"{local.curator.rpc.unix_socket}.steps")
            one.sendall(call_of(local))
        refused = seen(sockets, 3)
        assert [refusal(ending(one)).reason for one in refused] == ["TOO_MANY_CALLS"] * 3
        with local.connect("bob") as barrier:
            assert barrier.budget("digits").spent == 0
        assert run.next_step == 1
    finally:
        for one in sockets:
            one.close()


def test_requests_that_never_end_hold_no_more_than_their_room(local: Local) -> None:
    """As over gRPC: the second that finds no room is refused, not kept."""
    piece = release_pb2.Part(data=b"a", total_bytes=64 << 20)
    sent = frame(STEP, release_pb2.StepRequest(part=piece).SerializeToString())
    with local.connect("bob") as bob, ExitStack() as held:
        ways = [held.enter_context(opened(local)) for _ in range(12)]
        for one in ways:
            one.sendall(call_of(local) + sent)
        over = seen(ways, 11)
        assert [refusal(ending(one)).reason for one in over] == ["TOO_MANY_BYTES"] * 11
        run = bob.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=2)
        run.gradient(*batch())


def large_step(local: Local) -> tuple[str, bytes]:
    """Open a run; return it with the frame of its first step, whose answer has a megabyte."""
    with local.connect() as barrier:
        run = barrier.open_run("digits", "mean-embedding", EMBEDDING, num_steps=3)
    return run.run_id, rows_of(encode_step(run.run_id, 1, *batch(4000)))


def test_an_answer_that_nobody_takes_holds_its_call(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_call, "_BUFFER", 1 << 14)  # less than an answer
    _, step = large_step(local)
    with local.connect("bob") as bob, ExitStack() as held:
        ways = [held.enter_context(opened(local)) for _ in range(CALLS_PER_CALLER)]
        for one in ways:
            one.sendall(call_of(local) + step)
        assert len(seen(ways, CALLS_PER_CALLER)) == CALLS_PER_CALLER  # answered, and not taken
        with opened(local) as another:
            another.sendall(call_of(local))
            assert refusal(ending(another)).reason == "TOO_MANY_CALLS"
        assert bob.budget("digits").spent > 0


def test_an_answer_has_a_time_in_which_it_is_taken(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_call, "_BUFFER", 1 << 14)  # less than an answer
    monkeypatch.setattr(messages, "PAUSE_SECONDS", 0.5)
    monkeypatch.setattr(messages, "SLOWEST", 1 << 30)
    run_id, step = large_step(local)
    with opened(local) as greedy, local.connect() as barrier:
        greedy.sendall(call_of(local) + step)
        calls = local.curator.rpc.patience._waits
        assert seen([greedy], 1) == [greedy]
        until = time.monotonic() + 20
        while calls and time.monotonic() < until:  # until it is ended
            time.sleep(0.05)
        assert not calls
        run = barrier.resume_run(run_id)
        assert run.next_step == 2  # charged
        run.next_step = 1
        run.gradient(*batch(4000))  # and the same step has its answer still
        assert barrier.resume_run(run_id).next_step == 2


def seen(ways: list[socket.socket], number: int) -> list[socket.socket]:
    """Return those on which there is something to read, when they are so many, or after a while."""
    found: list[socket.socket] = []
    until = time.monotonic() + 20
    while len(found) < number and time.monotonic() < until:
        found = [one for one in ways if peeked(one)]
        time.sleep(0.01)
    return found


def peeked(one: socket.socket) -> bool:
    return bool(select.select([one], [], [], 0)[0])


def test_connections_beyond_the_threads_are_closed_and_others_go_on(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = local.curator.rpc.local
    assert server is not None
    taken = 0
    while server._places.acquire(blocking=False):
        taken += 1
    with opened(local) as connection:
        assert connection.recv(1) == b""
    for _ in range(taken):
        server._places.release()
    monkeypatch.undo()
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=1)
        run.gradient(*batch())


@pytest.mark.waits
def test_who_begins_no_call_or_sends_no_step_is_not_waited_for(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_server, "_BEGIN_SECONDS", 0.5)
    monkeypatch.setattr(shield, "_IDLE_SECONDS", 0.5)
    for sent in (b"", call_of(local)):
        with opened(local) as connection:
            connection.sendall(sent)
            assert connection.recv(1) == b""


def test_a_revoked_token_ends_an_open_call(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
        with opened(local) as connection:
            connection.sendall(call_of(local))
            connection.sendall(frame(STEP, step_of(run.run_id).SerializeToString()))
            kind, length = HEADER.unpack(connection.recv(HEADER.size, socket.MSG_WAITALL))
            assert kind == STEP
            connection.recv(length, socket.MSG_WAITALL)
            local.folder.tokens.revoke("alice")
            before = entries(local)
            connection.sendall(frame(STEP, step_of(run.run_id, 2).SerializeToString()))
            assert refusal(ending(connection)).reason == "UNAUTHENTICATED"
            assert entries(local) == before


def test_draining_ends_idle_calls(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)
        run.gradient(*batch())
        started = time.monotonic()
        local.curator.rpc.drain(30.0)
        assert time.monotonic() - started < 5


def test_a_curator_without_the_socket_is_told_loudly_and_served_by_grpc(local: Local) -> None:
    Path(f"{local.curator.rpc.unix_socket}.steps").unlink()
    with pytest.warns(StepsOverGrpc, match=r"No curator takes steps at .*use unix:PATH"):
        barrier = local.connect()
    with barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
        assert run.gradient(*batch()).shape == batch()[0].shape


def test_a_socket_for_steps_that_is_open_to_others_is_not_used(local: Local) -> None:
    Path(f"{local.curator.rpc.unix_socket}.steps").chmod(0o666)
    with pytest.warns(StepsOverGrpc, match="not a socket that only its owner"), local.connect():
        pass


def test_the_other_side_is_no_curator(tmp_path: Path, wire: str) -> None:
    assert wire == "local"
    path = socket_of(digits_folder(tmp_path / "c"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        steps = LocalSteps(path, "Bearer x", 0.2, 0)
        with closing(steps), pytest.raises(CuratorUnreachable, match=r"answer in 0\.2 seconds"):
            steps.look()
    path.unlink()


def test_a_training_command_takes_it(tmp_path: Path, serve: Callable[..., Any], wire: str) -> None:
    assert wire == "local"
    process = serve(digits_folder(tmp_path / "c"))
    trained = run_cli(
        *("analyst", "train", "--curator", process.target, "--recipe", "dp-sinkhorn-digits"),
        *("--credentials", str(credentials(process.folder, "alice")), "--steps", "3"),
        *("--mechanism-noise-multiplier", "6", "--out", str(tmp_path / "run")),
    )
    assert trained.returncode == 0, trained.stderr
    assert "over gRPC" not in trained.stderr


def test_nothing_of_a_step_goes_over_grpc(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)
        barrier._connection._channel.close()
        for _ in range(4):
            run.gradient(*batch())
        assert run.next_step == 5


def test_analysts_on_both_wires_share_one_run(local: Local) -> None:
    over_grpc = analyst.connect(
        f"localhost:{local.curator.rpc.port}", credentials=credentials(local.folder, "alice")
    )
    with local.connect() as barrier, over_grpc:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=3)
        before = run.gradient(*batch())
        again = over_grpc.resume_run(run.run_id)
        again.next_step = 1
        assert again.gradient(*batch()).equal(before)
        assert barrier.resume_run(run.run_id).next_step == 2
