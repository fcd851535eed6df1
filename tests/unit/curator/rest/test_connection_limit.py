"""More connections than there is room for cost whoever holds the most its oldest."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from curator.rest.connections import CrowdedSocket

MOST = 3


@pytest.fixture
def listener() -> Iterator[CrowdedSocket]:
    with CrowdedSocket(socket.AF_INET, MOST) as one:
        one.bind(("127.0.0.1", 0))
        one.listen(16)
        one.settimeout(20)
        yield one


def connected(listener: CrowdedSocket, source: str) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection from an address of this machine."""
    theirs = socket.create_connection(listener.getsockname(), 20, source_address=(source, 0))
    ours, _ = listener.accept()
    return ours, theirs


def is_ended(theirs: socket.socket) -> bool:
    theirs.settimeout(0.2)
    try:
        return theirs.recv(1) == b""
    except TimeoutError:
        return False


def test_the_oldest_goes(listener: CrowdedSocket) -> None:
    with ExitStack() as open_ones:
        ends = [connected(listener, "127.0.0.1") for _ in range(MOST + 2)]
        for pair in ends:
            for one in pair:
                open_ones.enter_context(one)
        assert [is_ended(theirs) for _, theirs in ends] == [True, True, False, False, False]


def test_the_address_that_holds_the_most_pays(listener: CrowdedSocket) -> None:
    with ExitStack() as open_ones:
        sources = ("127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.1")
        ends = [connected(listener, source) for source in sources]
        for pair in ends:
            for one in pair:
                open_ones.enter_context(one)
        assert [is_ended(theirs) for _, theirs in ends] == [False, True, True, False, False]


def test_closed_ones_count_no_more(listener: CrowdedSocket) -> None:
    first, theirs = connected(listener, "127.0.0.1")
    with theirs:
        for _ in range(3 * MOST):
            for one in connected(listener, "127.0.0.1"):
                one.close()
        assert not is_ended(theirs)
        first.close()
        assert is_ended(theirs)


def test_a_connection_keeps_how_it_waits(listener: CrowdedSocket) -> None:
    ours, theirs = connected(listener, "127.0.0.1")
    with ours, theirs:
        theirs.sendall(b"x")
        ours.settimeout(20)
        assert ours.recv(1) == b"x"
