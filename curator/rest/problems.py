"""Errors as RFC 9457 problems: constant words, and the same public detail as over gRPC."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from curator import errors

MEDIA_TYPE: Final = "application/problem+json"

STATUS: Final[dict[type[errors.CuratorError], HTTPStatus]] = {
    errors.CuratorError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.RequestError: HTTPStatus.BAD_REQUEST,
    errors.MalformedRequest: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.StepOutOfOrder: HTTPStatus.CONFLICT,
    errors.StepConflict: HTTPStatus.CONFLICT,
    errors.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    errors.UnknownDataset: HTTPStatus.NOT_FOUND,
    errors.UnknownRun: HTTPStatus.NOT_FOUND,
    errors.Refusal: HTTPStatus.CONFLICT,
    errors.BudgetExhausted: HTTPStatus.CONFLICT,
    errors.AllotmentExhausted: HTTPStatus.CONFLICT,
    errors.RunClosed: HTTPStatus.CONFLICT,
    errors.DatasetPaused: HTTPStatus.CONFLICT,
    errors.DatasetRetired: HTTPStatus.GONE,
    errors.DatasetOutOfService: HTTPStatus.CONFLICT,
    errors.TooManyRuns: HTTPStatus.CONFLICT,
    errors.TooMuchState: HTTPStatus.CONFLICT,
    errors.NotPermitted: HTTPStatus.FORBIDDEN,
    errors.PolicyRefused: HTTPStatus.FORBIDDEN,
    errors.StepLost: HTTPStatus.GONE,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.LedgerUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.TooManyCalls: HTTPStatus.TOO_MANY_REQUESTS,
    errors.TooManyBytes: HTTPStatus.TOO_MANY_REQUESTS,
    errors.TooFast: HTTPStatus.TOO_MANY_REQUESTS,
}
_DOCUMENTED = (400, 401, 403, 404, 422, 500, 503)


class Numbers(BaseModel):
    """What an exhausted budget was asked, all in epsilon at its delta."""

    budget: float
    spent: float
    reserved: float
    asked: float
    remaining: float
    delta: float


class Problem(BaseModel):
    """An error: what happened, with a public detail where there is one, and what to do next."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    reason: str
    remedy: str
    budget: Numbers | None = None
    retry_seconds: float | None = None


def problem_of(error: errors.CuratorError, request_id: str) -> JSONResponse:
    """Return the answer for an error.

    Args:
        error: What happened; of its own text only the public detail leaves.
        request_id: So that the steward can find the log line.
    """
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    detail = f" ({error.public_detail})" if error.detail else ""
    message = f"{error.public_message}{detail}"
    problem = _problem(status, error.reason, message, error.remedy, request_id)
    headers = {}
    if isinstance(error, errors.Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.BudgetExhausted):
        problem.budget = Numbers.model_validate(error.numbers, from_attributes=True)
    if isinstance(error, errors.Unavailable):
        problem.retry_seconds = error.retry_seconds
        headers["Retry-After"] = str(math.ceil(error.retry_seconds))
    return _answer(problem, headers)


def problem_of_status(code: int, request_id: str, allow: str | None = None) -> JSONResponse:
    """Return the answer for what HTTP itself refuses, such as an unknown path.

    Args:
        code: Of HTTP.
        request_id: So that the steward can find the log line.
        allow: Methods that the path has, for 405.
    """
    status = HTTPStatus(code)
    message = "There is nothing here." if status is HTTPStatus.NOT_FOUND else f"{status.phrase}."
    remedy = "Compare method and path with /openapi.json."
    problem = _problem(status, f"HTTP_{status.name}", message, remedy, request_id)
    return _answer(problem, {} if allow is None else {"Allow": allow})


def _problem(
    status: HTTPStatus, reason: str, message: str, remedy: str, request_id: str
) -> Problem:
    return Problem(
        type=f"urn:weir-dp:error:{reason}",
        title=reason.replace("_", " ").capitalize(),
        status=status,
        detail=message,
        instance=f"urn:weir-dp:request:{request_id}",
        reason=reason,
        remedy=remedy,
    )


def _answer(problem: Problem, headers: dict[str, str]) -> JSONResponse:
    content = problem.model_dump(exclude_none=True)
    return JSONResponse(content, problem.status, headers, media_type=MEDIA_TYPE)


def document_problems(app: FastAPI) -> None:
    """Let the schema say that every error of every route is a problem."""

    def schema() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title, version=app.version, summary=app.summary, routes=app.routes
            )
            _add_problems(made)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = schema  # type: ignore[method-assign]  # FastAPI's documented way


def _add_problems(schema: dict[str, Any]) -> None:
    reference = "#/components/schemas/{model}"
    problem = Problem.model_json_schema(ref_template=reference)
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    components |= problem.pop("$defs") | {"Problem": problem}
    content = {MEDIA_TYPE: {"schema": {"$ref": reference.format(model="Problem")}}}
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)  # FastAPI's own words
            for code in _DOCUMENTED:
                answer = {"description": HTTPStatus(code).phrase, "content": content}
                operation["responses"].setdefault(str(code), answer)
