"""Both servers listen where the configuration says, also at a numeric address of IPv6."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from fastapi import FastAPI

from curator.config import CuratorConfig
from curator.identity.listen import address, is_every_address, reachable
from curator.rest.server import RestConfig, RestServer
from curator.rpc.server import RpcConfig, _bind


def needs_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")


def bound(host: str) -> tuple[int, int]:
    """Listen with both servers for as long as it takes to ask each port; return the ports."""
    config = CuratorConfig.model_validate({"grpc": {"host": host}, "rest": {"host": host}})
    rpc = grpc.server(ThreadPoolExecutor(1))
    plain = {"tls": None, "max_message_bytes": 1, "reflection": False}
    wanted = RpcConfig(host=config.grpc.host, port=0, **plain)  # type: ignore[arg-type]
    port, _ = _bind(rpc, wanted)
    rest = RestServer(FastAPI(), RestConfig(host=config.rest.host, port=0, tls=None))
    rpc.start()
    rest.start()
    try:
        for local in ("127.0.0.1", "::1") if is_every_address(config.rest.host) else ("::1",):
            for number in (port, rest.port):
                socket.create_connection((local, number), timeout=10).close()
    finally:
        rpc.stop(None).wait()
        rest.stop()
    return port, rest.port


@pytest.mark.parametrize("host", ["::", "[::]", "::1", "[::1]"])
def test_a_numeric_address_of_ipv6_needs_no_brackets(host: str) -> None:
    needs_ipv6()
    assert min(bound(host)) > 0


def test_an_address_has_brackets_where_it_needs_them() -> None:
    assert address("::1", 5) == "[::1]:5"
    assert address("weir.example.org", 5) == "weir.example.org:5"
    assert reachable("::", ("weir.example.org",)) == "weir.example.org"
    assert reachable("0:0::0") == "localhost"
    assert reachable("weir.example.org", ("another",)) == "weir.example.org"
