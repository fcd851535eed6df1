"""No call holds a worker for longer than it may, and bytes that are no message are a mistake."""

from __future__ import annotations

import itertools
import socket
import ssl
import time
from typing import Any

import grpc
import pytest

from curator.rest import connections
from curator.rpc import shield
from curator.rpc.call_limits import CALLS_PER_CALLER
from tests.e2e.conftest import SINKHORN, Local, batch, token
from tests.e2e.identity_doors import refused
from tests.e2e.test_doors import RAW, channel, never_sending

pytestmark = pytest.mark.e2e

METHODS = ("GetBudget", "Step", "StreamSteps", "OpenRun")


@pytest.mark.waits
def test_a_call_whose_message_never_comes_is_ended(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_MESSAGE_SECONDS", "_IDLE_SECONDS"):
        monkeypatch.setattr(shield, name, 0.5)
    metadata = (("authorization", f"Bearer {token(local.folder, 'alice')}"),)
    with channel(local) as slow:
        for name in METHODS:
            method = slow.stream_unary(f"/weir.v1.WeirService/{name}", RAW, RAW)
            call = method.future(never_sending(), metadata=metadata, timeout=30)
            assert call.code() is grpc.StatusCode.CANCELLED


def test_calls_are_counted_before_their_message(local: Local) -> None:
    metadata = (("authorization", f"Bearer {token(local.folder, 'alice')}"),)
    with channel(local) as greedy, local.connect("bob") as bob:
        method = greedy.stream_unary("/weir.v1.WeirService/GetBudget", RAW, RAW)
        calls: list[Any] = [
            method.future(never_sending(), metadata=metadata, timeout=60)
            for _ in range(CALLS_PER_CALLER + 3)
        ]
        until = time.monotonic() + 30
        refused: list[Any] = []
        while len(refused) < 3 and time.monotonic() < until:
            refused = [call for call in calls if call.done()]
            time.sleep(0.02)
        assert ["TOO_MANY_CALLS" in call.details() for call in refused] == [True] * 3
        assert bob.budget("digits").spent == 0.0
        for call in calls:
            call.cancel()


def test_bytes_that_are_no_message_are_the_caller_s_mistake(local: Local) -> None:
    metadata = (("authorization", f"Bearer {token(local.folder, 'alice')}"),)
    broken = ((b"\xff" * 7,), (b"\x0a\x02\xff\xfe",), (b"\x0a\xff\xff\xff\xff\x0f",), ())
    with channel(local) as stub:
        for name, messages in itertools.product(METHODS, broken):
            if name == "StreamSteps" and not messages:
                continue  # a stream without steps ends without an answer
            method = stub.stream_unary(f"/weir.v1.WeirService/{name}", RAW, RAW)
            seen = refused(lambda: method(iter(messages), metadata=metadata, timeout=30))  # noqa: B023 - called at once
            assert seen.refusal.reason == "MALFORMED_REQUEST"


def test_draining_does_not_wait_for_idle_streams(local: Local) -> None:
    with local.connect("alice") as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)
        run.gradient(*batch())
        started = time.monotonic()
        local.curator.rpc.drain(30.0)
        assert time.monotonic() - started < 5


def test_a_rest_connection_that_asks_nothing_is_closed(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 0.3)
    tls = ssl.create_default_context(cafile=str(local.folder.identity / "ca.pem"))
    with (
        socket.create_connection(("127.0.0.1", local.curator.rest.port), 10) as plain,
        tls.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        secured.sendall(b"GET /v1/datasets HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert secured.recv(1) == b""
