"""Who waits for a curator that does not answer is told for whom, and is not kept in the dark."""

from __future__ import annotations

import socket

import pytest

from analyst.client import channel, connect
from analyst.errors import CuratorUnreachable


@pytest.fixture
def nowhere() -> str:
    """Return an address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_long_wait_says_for_whom(nowhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_SAY_AFTER_S", 0.05)
    said: list[str] = []
    with pytest.raises(CuratorUnreachable):
        connect(nowhere, credentials=None, insecure_loopback=True, timeout=0.2, say=said.append)
    assert said == [f"no answer from {nowhere} yet; waiting up to 0.2 s"]


def test_a_short_wait_is_silent(nowhere: str) -> None:
    said: list[str] = []
    with pytest.raises(CuratorUnreachable):
        connect(nowhere, credentials=None, insecure_loopback=True, timeout=0.1, say=said.append)
    assert not said
