"""What strangers and dishonest analysts can hold is bounded, and health is answered beside them."""

from __future__ import annotations

import http.client
import queue
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch

from analyst.client.codec import encode_step
from curator.config import CuratorConfig, GrpcSection, RestSection
from curator.process.bootstrap import create_curator
from curator.rest import connections
from curator.rpc import messages
from curator.rpc.call_limits import CALLS_PER_CALLER, LARGEST_MESSAGE, OpenCalls
from curator.service.caller import Caller
from protos.weir.v1 import release_pb2
from tests.e2e.conftest import (
    EMBEDDING,
    OVER_BOTH_WIRES,
    SINKHORN,
    Local,
    batch,
    digits_folder,
    token,
)
from tests.e2e.test_doors import RAW, channel
from tests.load.harness import Target
from tests.load.http2 import Connection, message

pytestmark = pytest.mark.e2e

SECONDS = 60.0
HELD = 270  # a few more than there is room for
BODY = (
    b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
    b"Sec-Fetch-Site: same-origin\r\n"  # else it is answered before its body
    b"Content-Type: application/x-www-form-urlencoded\r\n\r\na"
)
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
SECOND_HEAD = HEAD + b"\r\n" + HEAD + b"X-Slow: "


def metadata(local: Local, name: str = "alice") -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token(local.folder, name)}"),)


@contextmanager
def rest(local: Local, sent: bytes) -> Iterator[ssl.SSLSocket]:
    tls = ssl.create_default_context(cafile=str(local.folder.identity / "ca.pem"))
    with (
        socket.create_connection(("127.0.0.1", local.curator.rest.port), SECONDS) as plain,
        tls.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        secured.sendall(sent)
        yield secured


def health(local: Local, port: int) -> list[int]:
    tls = ssl.create_default_context(cafile=str(local.folder.identity / "ca.pem"))
    codes = []
    for path in ("/healthz", "/readyz"):
        asking = http.client.HTTPSConnection("localhost", port, timeout=SECONDS, context=tls)
        asking.request("GET", path)
        codes.append(asking.getresponse().status)
        asking.close()
    return codes


@pytest.mark.parametrize("sent", [b"", BODY, SECOND_HEAD])
def test_connections_that_hold_back_their_requests_leave_room(local: Local, sent: bytes) -> None:
    with ExitStack() as held:
        for _ in range(HELD):
            held.enter_context(rest(local, sent))
        assert health(local, local.curator.rest.port) == [200, 200]


@pytest.mark.parametrize(
    ("deadline", "sent"), [("_BODY_SECONDS", BODY), ("_HEAD_SECONDS", SECOND_HEAD)]
)
def test_what_is_held_back_too_long_ends_the_connection(
    local: Local, monkeypatch: pytest.MonkeyPatch, deadline: str, sent: bytes
) -> None:
    for another in ("_HEAD_SECONDS", "_BODY_SECONDS"):
        monkeypatch.setattr(connections, another, 2 * SECONDS)
    monkeypatch.setattr(connections, deadline, 0.3)
    with rest(local, sent) as slow:
        drip = threading.Event()
        received = b""
        while part := slow.recv(1 << 16):  # times out if it is never closed
            received += part
            if not drip.wait(0.05):
                slow.sendall(b"x")
    assert received[:12] == (b"HTTP/1.1 200" if sent is SECOND_HEAD else b"")


def test_an_answer_that_takes_long_is_waited_for(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_TAKING_SECONDS", 0.1)
    ledger = local.curator.ledger
    slow = threading.Event()
    monkeypatch.setattr(type(ledger), "is_writable", lambda _: not slow.wait(1.0))
    assert health(local, local.curator.rest.port) == [200, 200]


def test_health_has_a_place_where_nothing_else_is_answered(tmp_path: Path) -> None:
    folder = digits_folder(tmp_path / "curator")
    config = CuratorConfig(grpc=GrpcSection(port=0), rest=RestSection(port=0, health_port=0))
    curator = create_curator(folder, config)
    local = Local(folder=folder, curator=curator)
    curator.start()
    try:
        assert curator.health is not None
        assert health(local, curator.health.port) == [200, 200]
        tls = ssl.create_default_context(cafile=str(folder.identity / "ca.pem"))
        for path in ("/", "/v1/datasets", "/metrics", "/openapi.json"):
            asking = http.client.HTTPSConnection(
                "localhost", curator.health.port, timeout=SECONDS, context=tls
            )
            asking.request("GET", path)
            assert asking.getresponse().status == 404
            asking.close()
    finally:
        curator.draining.set()
        curator.wait()


def test_a_message_is_small_however_large_a_request_may_be(local: Local) -> None:
    with channel(local) as greedy:
        method = greedy.stream_stream("/weir.v1.WeirService/StreamSteps", RAW, RAW)
        call = method(iter([bytes(LARGEST_MESSAGE + 1)]), metadata=metadata(local), timeout=SECONDS)
        assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_message_that_unpacks_to_more_is_as_large_as_that(local: Local) -> None:
    with channel(local) as greedy:
        method = greedy.stream_stream("/weir.v1.WeirService/StreamSteps", RAW, RAW)
        call = method(
            iter([bytes(LARGEST_MESSAGE + 1)]),  # a few thousand bytes on their way
            metadata=metadata(local),
            timeout=SECONDS,
            compression=grpc.Compression.Gzip,
        )
        assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@OVER_BOTH_WIRES
def test_a_large_step_in_pieces_gets_the_same_bytes(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "mean-embedding", EMBEDDING, num_steps=3)
        assert run._part_bytes == messages.PART_BYTES
        images, labels = batch(4000)  # a megabyte
        whole = run.gradient(images, labels)
        run.hang_up()
        run.next_step, run._part_bytes = 1, 100_000
        assert torch.equal(run.gradient(images, labels), whole)
        run.gradient(images, labels)
        assert run.next_step == 3


def test_requests_that_never_end_hold_no_more_than_their_room(local: Local) -> None:
    """Each declares the largest size; the second that finds no room is refused, not kept."""
    most = 64 << 20
    piece = release_pb2.Part(data=b"a", total_bytes=most)
    sent = release_pb2.StepRequest(part=piece).SerializeToString()
    with channel(local) as greedy, local.connect("bob") as bob, ExitStack() as held:
        method = greedy.stream_stream("/weir.v1.WeirService/StreamSteps", RAW, RAW)
        calls: list[Any] = []
        for _ in range(12):
            going_on = threading.Event()

            def pieces(going_on: threading.Event = going_on) -> Iterator[bytes]:
                yield sent
                going_on.wait(SECONDS)

            calls.append(method(pieces(), metadata=metadata(local), timeout=SECONDS))
            held.callback(going_on.set)
            held.callback(calls[-1].cancel)
        ended = threading.Event()
        for _ in range(600):
            if sum(call.done() for call in calls) > 10:
                break
            ended.wait(0.05)
        over = [call for call in calls if call.done()]
        assert len(over) == 11  # one of 64 MiB and its first piece are half of what was free
        assert all("TOO_MANY_BYTES" in call.details() for call in over)
        run = bob.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=2)
        run.gradient(*batch())


@contextmanager
def never_reading(local: Local) -> Iterator[Connection]:
    target = Target(
        root=local.folder.root,
        grpc_port=local.curator.rpc.port,
        rest_port=local.curator.rest.port,
    )
    connection = Connection(target, "alice")
    try:
        yield connection
    finally:
        connection.close()


def calls_begun(monkeypatch: pytest.MonkeyPatch, name: str) -> queue.SimpleQueue[str]:
    """Return a queue that gets a name for each call of its that is counted: sent is not counted."""
    begun: queue.SimpleQueue[str] = queue.SimpleQueue()
    counted = OpenCalls.counted

    @contextmanager
    def told(calls: OpenCalls, caller: Caller) -> Iterator[None]:
        with counted(calls, caller):
            if caller.name == name:
                begun.put(name)
            yield

    monkeypatch.setattr(OpenCalls, "counted", told)
    return begun


def large_step(local: Local) -> tuple[str, bytes, tuple[torch.Tensor, torch.Tensor]]:
    """Open a run; return it with its first step, whose answer has a megabyte."""
    images = batch(4000)
    with local.connect() as barrier:
        run = barrier.open_run("digits", "mean-embedding", EMBEDDING, num_steps=3)
    request = encode_step(run.run_id, 1, *images).whole()
    return run.run_id, message(request.SerializeToString()), images


@pytest.mark.parametrize("method", ["Step", "StreamSteps"])
def test_an_answer_that_nobody_takes_holds_its_call(
    local: Local, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Of unary calls too; else answers would pile up in memory, and nobody would count them."""
    _, step, _ = large_step(local)
    begun = calls_begun(monkeypatch, "alice")
    pause = threading.Event()
    with never_reading(local) as greedy, local.connect("bob") as bob:
        for _ in range(CALLS_PER_CALLER):
            greedy.open(step, method)
        while any(map(len, greedy.left.values())):
            greedy.pump()
        for _ in range(CALLS_PER_CALLER):
            begun.get(timeout=SECONDS)
        with channel(local) as another:
            ask = another.unary_unary("/weir.v1.WeirService/ListDatasets", RAW, RAW)
            for _ in range(60):  # in which all of them are computed
                with pytest.raises(grpc.RpcError, match="TOO_MANY_CALLS"):
                    ask(b"", metadata=metadata(local), timeout=SECONDS)
                greedy.pump()
                pause.wait(0.05)
        assert (len(greedy.left), greedy.ended) == (CALLS_PER_CALLER, 0)
        assert bob.budget("digits").spent > 0


@pytest.mark.parametrize("method", ["Step", "StreamSteps"])
def test_an_answer_has_a_time_in_which_it_is_taken(
    local: Local, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(messages, "PAUSE_SECONDS", 0.5)
    monkeypatch.setattr(messages, "SLOWEST", 1 << 30)
    run_id, step, images = large_step(local)
    with never_reading(local) as greedy, local.connect() as barrier:
        greedy.open(step, method)
        pause = threading.Event()
        for _ in range(600):
            if greedy.ended:
                break
            greedy.pump()
            pause.wait(0.05)
        assert greedy.ended == 1
        run = barrier.resume_run(run_id)
        assert run.next_step == 2  # charged
        run.next_step = 1
        run.gradient(*images)  # and the same step has its answer still
        assert barrier.resume_run(run_id).next_step == 2
