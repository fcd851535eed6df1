"""Which addresses are written as addresses are."""

from __future__ import annotations

import pytest

from analyst.client.address import address_problem


@pytest.mark.parametrize(
    "address",
    [
        "localhost:50051",
        "10.0.0.7:1",
        "weir.example.org:65535",
        "[::1]:50051",
        "unix:/run/weir.sock",
    ],
)
def test_an_address_is_taken(address: str) -> None:
    assert address_problem(address) is None


@pytest.mark.parametrize(
    "address",
    [
        *("", "localhost", "localhost:", ":50051", "localhost:port", "localhost:50051 "),
        *(" localhost:50051", "::1", "::1:50051", "https://localhost:50051", "localhost:0"),
        *("localhost:65536", "localhost:\u0665\u0660", "a b:1", "localhost:50051/v1"),
    ],
)
def test_what_is_none_is_told_with_an_example(address: str) -> None:
    assert address_problem(address) == "HOST:PORT is needed, such as localhost:50051"
