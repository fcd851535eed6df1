"""Nobody without credentials, and no single analyst, can close the door for others."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from analyst.client.channel import Connection
from analyst.errors import CredentialsError, CuratorUnreachable, RequestRefused
from curator.rpc.call_limits import CALLS_PER_CALLER
from tests.e2e.conftest import OVER_BOTH_WIRES, SINKHORN, Local, batch, token

pytestmark = pytest.mark.e2e


def RAW(message: bytes) -> bytes:  # noqa: N802 - neither serialises nor parses
    return message


def channel(local: Local) -> grpc.Channel:
    root = (local.folder.identity / "ca.pem").read_bytes()
    target = f"localhost:{local.curator.rpc.port}"
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(root))


def never_sending() -> Iterator[bytes]:
    waiting: queue.SimpleQueue[None] = queue.SimpleQueue()
    waiting.get()
    yield b""


def test_calls_without_credentials_and_without_a_message_hold_nothing(local: Local) -> None:
    with channel(local) as stranger, local.connect("bob") as bob:
        method = stranger.stream_unary("/weir.v1.WeirService/GetBudget", RAW, RAW)
        calls = [method.future(never_sending(), timeout=60) for _ in range(200)]
        started = time.monotonic()
        assert bob.budget("digits").spent == 0.0
        assert time.monotonic() - started < 30
        assert calls[0].code() is grpc.StatusCode.UNAUTHENTICATED


def test_health_checks_that_never_send_a_message_hold_nothing(local: Local) -> None:
    with channel(local) as stranger, local.connect("bob") as bob:
        method = stranger.stream_unary("/grpc.health.v1.Health/Check", RAW, RAW)
        calls = [method.future(never_sending(), timeout=60) for _ in range(200)]
        assert bob.budget("digits").spent == 0.0
        assert calls[0].result(30) == b"\x08\x01"  # SERVING


@OVER_BOTH_WIRES
def test_revoking_ends_an_open_stream(local: Local) -> None:
    with local.connect("alice") as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)
        run.gradient(*batch())
        local.folder.tokens.revoke("alice")
        with pytest.raises(RequestRefused, match="credentials"):
            run.gradient(*batch())


def test_idle_streams_of_one_analyst_leave_room_for_others(local: Local) -> None:
    with channel(local) as greedy, local.connect("bob") as bob:
        metadata = (("authorization", f"Bearer {token(local.folder, 'alice')}"),)
        method = greedy.stream_stream("/weir.v1.WeirService/StreamSteps", RAW, RAW)
        number = CALLS_PER_CALLER + 20
        calls: list[Any] = [method(never_sending(), metadata=metadata) for _ in range(number)]
        refused: list[Any] = []
        until = time.monotonic() + 30
        while len(refused) < 20 and time.monotonic() < until:
            refused = [call for call in calls if call.done()]
            time.sleep(0.05)
        assert len(refused) == 20
        assert all("TOO_MANY_CALLS" in str(call.details()) for call in refused)
        assert bob.budget("digits").spent == 0.0
        for call in calls:
            call.cancel()


@OVER_BOTH_WIRES
def test_a_curator_that_never_answers_is_reported(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    import analyst.client.run as client_run
    import curator.rpc.servicer as servicer
    from curator.service.answer_step import release_gradient

    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)
        run._patience = 2.0
        monkeypatch.setattr(client_run, "_STEP_SECONDS", 1.0)
        real = release_gradient

        def slow(*arguments: Any) -> Any:
            time.sleep(3)
            return real(*arguments)

        monkeypatch.setattr(servicer, "release_gradient", slow)
        with pytest.raises(CuratorUnreachable, match="did not answer"):
            run.gradient(*batch())
        monkeypatch.undo()
        run._patience = 30.0
        run.gradient(*batch())  # the same step, answered once
        assert run.next_step == 2


@pytest.mark.parametrize("target", ["203.0.113.7:50051", "curator.example.org:50051"])
def test_the_token_is_never_sent_in_clear_to_another_machine(target: str) -> None:
    with pytest.raises(CredentialsError, match="loopback"):
        Connection(target, None, insecure_loopback=True)
