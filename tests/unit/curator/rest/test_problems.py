"""Every error is an RFC 9457 problem: constant words, and the public detail as over gRPC."""

from __future__ import annotations

import json

import pytest
from fastapi import FastAPI

from curator import errors
from curator.rest.problems import MEDIA_TYPE, STATUS, problem_of
from curator.rpc.status import status_text
from tests.fakes.http import ask
from tests.unit.curator.error_tree import example, tree

MEMBERS = {"type", "title", "status", "detail", "instance", "reason", "remedy"}


@pytest.mark.parametrize("kind", tree())
def test_every_error_has_a_status_and_constant_words(kind: type[errors.CuratorError]) -> None:
    answer = problem_of(example(kind), "abc")
    body = json.loads(bytes(answer.body))
    assert answer.media_type == MEDIA_TYPE
    status = next(STATUS[base] for base in kind.__mro__ if base in STATUS)
    assert answer.status_code == body["status"] == status
    assert body["type"] == f"urn:weir-dp:error:{kind.reason}"
    assert body["instance"] == "urn:weir-dp:request:abc"
    error = example(kind)
    detail = f" ({error.public_detail})" if error.detail else ""
    assert (body["detail"], body["remedy"]) == (f"{kind.public_message}{detail}", kind.remedy)
    assert f"{body['reason']}: {body['detail']} {body['remedy']}" == status_text(error)
    assert set(body) >= MEMBERS


def test_a_budget_has_its_numbers_and_a_wait_its_seconds() -> None:
    body = json.loads(bytes(problem_of(example(errors.BudgetExhausted), "").body))
    assert body["budget"] == {
        "budget": 10.0,
        "spent": 1.5,
        "reserved": 9.5,
        "asked": 11.0,
        "remaining": 0.5,
        "delta": 1e-5,
    }
    answer = problem_of(errors.TooFast("DETAIL", 2.5), "")
    assert json.loads(bytes(answer.body))["retry_seconds"] == 2.5
    assert answer.headers["Retry-After"] == "3"


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/nothing/<script>", 404, "HTTP_NOT_FOUND"),
        ("POST", "/v1/datasets", 405, "HTTP_METHOD_NOT_ALLOWED"),
        ("GET", "/v1/datasets", 401, "UNAUTHENTICATED"),
        ("GET", "/v1/runs/<script>", 401, "UNAUTHENTICATED"),
    ],
)
def test_http_s_own_errors_are_problems_too(
    app: FastAPI, method: str, path: str, status: int, reason: str
) -> None:
    answer = ask(app, path, method=method)
    assert answer.headers["Content-Type"] == MEDIA_TYPE
    body = answer.json()
    assert (answer.status_code, body["status"], body["reason"]) == (status, status, reason)
    assert "script" not in answer.text
    assert answer.headers.get("Allow") == ("GET" if status == 405 else None)
    assert answer.headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)


def test_the_schema_says_that_errors_are_problems(app: FastAPI) -> None:
    schema = ask(app, "/openapi.json").json()
    for operations in schema["paths"].values():
        (operation,) = operations.values()
        for code in ("401", "404", "500"):
            content = operation["responses"][code]["content"]
            assert content[MEDIA_TYPE]["schema"]["$ref"].endswith("/Problem")
    assert {"Problem", "Numbers"} <= set(schema["components"]["schemas"])


def test_an_error_has_the_request_id_of_its_log_line(
    app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="curator"):
        answer = ask(app, "/v1/datasets")
    (line,) = [record for record in caplog.records if record.message == "request"]
    told = vars(line)
    assert answer.json()["instance"] == f"urn:weir-dp:request:{told['request_id']}"
    assert (told["method"], told["outcome"]) == ("REST GET /v1/datasets", "401")
