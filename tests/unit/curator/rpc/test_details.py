"""Every refusal travels in google.rpc's words too, and says the same."""

from __future__ import annotations

from typing import TypeVar

import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import (
    BadRequest,
    ErrorInfo,
    QuotaFailure,
    RequestInfo,
    RetryInfo,
)
from google.rpc.status_pb2 import Status

from curator import errors
from curator.rpc.details import encode_details
from curator.rpc.status import encode_refusal, status_code
from tests.unit.curator.error_tree import example, tree

M = TypeVar("M", bound=Message)


def encoded(error: errors.CuratorError) -> Status:
    return encode_details(error, encode_refusal(error, "id"))


def find(status: Status, kind: type[M]) -> list[M]:
    found = []
    for packed in status.details:
        message = kind()
        if packed.Unpack(message):
            found.append(message)
    return found


@pytest.mark.parametrize("kind", tree())
def test_every_error_has_the_details_of_its_kind(kind: type[errors.CuratorError]) -> None:
    status = encoded(example(kind))
    (info,), (request,) = find(status, ErrorInfo), find(status, RequestInfo)
    assert (info.reason, info.domain) == (kind.reason, "weir-dp")
    assert info.metadata["remedy"] == kind.remedy
    assert request.request_id == "id"
    assert status.code == status_code(example(kind)).value[0]
    assert bool(find(status, QuotaFailure)) == issubclass(kind, errors.BudgetExhausted)
    assert bool(find(status, BadRequest)) == issubclass(kind, errors.MalformedRequest)
    assert bool(find(status, RetryInfo)) == issubclass(kind, errors.Unavailable)


def test_a_budget_says_whose_and_how_much() -> None:
    for kind, whose in (
        (errors.BudgetExhausted, "dataset"),
        (errors.AllotmentExhausted, "analyst"),
    ):
        (failure,) = find(encoded(example(kind)), QuotaFailure)
        (violation,) = failure.violations
        assert violation.subject == whose
        assert violation.quota_dimensions["spent"] == "1.5"
        assert violation.quota_dimensions["delta"] == "1e-05"
        assert "11.0000 of 10.0000" in violation.description


def test_a_malformed_request_says_which_field() -> None:
    (bad,) = find(encoded(errors.MalformedRequest("labels must be int64", "labels")), BadRequest)
    assert [one.field for one in bad.field_violations] == ["labels"]
    (bad,) = find(encoded(errors.MalformedRequest("?")), BadRequest)
    assert [one.field for one in bad.field_violations] == ["request"]


def test_too_fast_says_when() -> None:
    (retry,) = find(encoded(errors.TooFast("rule", 2.5)), RetryInfo)
    assert retry.retry_delay.ToTimedelta().total_seconds() == 2.5
    assert encode_refusal(errors.TooFast("rule", 2.5), "id").retry_seconds == 2.5


@pytest.mark.parametrize("detail", ["\ud800" * 3, "x" * 10**6, "\U0001f9ea" * 10**5])
def test_no_detail_is_too_long_or_not_text(detail: str) -> None:
    error = errors.MalformedRequest(detail)
    refusal = encode_refusal(error, "id").SerializeToString()
    assert len(refusal) + encoded(error).ByteSize() < 8192
