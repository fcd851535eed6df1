"""Every reason of the curator is a type of its own here, and nothing else is believed."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from analyst import errors
from analyst.client.refusals import EXHAUSTED, REFUSALS, UNAVAILABLE, to_exception
from curator.errors import CuratorError, Unavailable
from curator.rpc.status import encode_refusal, status_code
from protos.weir.v1 import refusal_pb2
from tests.unit.curator.error_tree import example, tree

KINDS = {**REFUSALS, **EXHAUSTED, **UNAVAILABLE}


class Failed(grpc.RpcError):
    """A failed call, as gRPC raises it."""

    def __init__(self, code: grpc.StatusCode, *metadata: tuple[str, bytes]) -> None:
        super().__init__()
        self._code, self._metadata = code, metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def trailing_metadata(self) -> Any:
        return self._metadata


def failed(error: CuratorError) -> Failed:
    refusal = encode_refusal(error, "id").SerializeToString()
    return Failed(status_code(error), ("weir-refusal-bin", refusal))


@pytest.mark.parametrize("kind", tree())
def test_every_reason_has_a_type(kind: type[CuratorError]) -> None:
    problem: Any = to_exception(failed(example(kind)), "host:1")
    assert kind.public_message in str(problem)
    assert kind.remedy in str(problem)
    if kind.reason == "INTERNAL":
        assert type(problem) is errors.CuratorFailed
        assert "request id" in str(problem)
        return
    assert problem.reason == kind.reason
    assert isinstance(problem, errors.CuratorUnreachable) == issubclass(kind, Unavailable)
    assert type(problem) is KINDS[kind.reason]


def test_every_type_stands_for_a_reason_that_there_is() -> None:
    assert set(KINDS) == {kind.reason for kind in tree()} - {"INTERNAL"}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, errors.CuratorUnreachable),
        (grpc.StatusCode.CANCELLED, errors.CuratorUnreachable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.CuratorSilent),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.CuratorUnreachable),
        (grpc.StatusCode.UNKNOWN, errors.ProtocolError),
        (grpc.StatusCode.INTERNAL, errors.ProtocolError),
        (grpc.StatusCode.UNIMPLEMENTED, errors.ProtocolError),
    ],
)
def test_what_is_not_the_curator_s_own_word(
    code: grpc.StatusCode, kind: type[errors.AnalystError]
) -> None:
    problem = to_exception(Failed(code), "host:1")
    assert type(problem) is kind
    assert "host:1" in str(problem)
    assert problem.remedy


def test_an_unknown_reason_of_a_newer_curator_is_still_a_refusal() -> None:
    newer = refusal_pb2.Refusal(reason="NEWER", message="m", remedy="r").SerializeToString()
    failure = Failed(grpc.StatusCode.FAILED_PRECONDITION, ("weir-refusal-bin", newer))
    problem: Any = to_exception(failure, "host:1")
    assert type(problem) is errors.RequestRefused
    assert problem.reason == "NEWER"


def test_a_damaged_refusal_is_a_protocol_error() -> None:
    broken = Failed(grpc.StatusCode.INTERNAL, ("weir-refusal-bin", b"\xff\xff"))
    assert type(to_exception(broken, "host:1")) is errors.ProtocolError
