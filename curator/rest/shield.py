"""Around every HTTP request: no exception text to anybody, and one line, count and span each."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from curator.errors import CuratorError, MalformedRequest, Unauthenticated
from curator.rest.pages import HEADERS, Page
from curator.rest.problems import problem_of, problem_of_status
from curator.service.caller import Caller
from curator.telemetry.counts import OTHER
from curator.telemetry.requests import FinishedRequest, Telemetry

_logger = logging.getLogger(__name__)
_METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS"})
_PAGES = frozenset({"/", "/dashboard", "/sign-in", "/sign-out"})


def add_shield(app: FastAPI, telemetry: Telemetry) -> None:
    """Convert every exception to constant words, and tell of each finished request once."""

    def on_curator_error(request: Request, error: Exception) -> Response:
        known = error if isinstance(error, CuratorError) else CuratorError()
        return _answer(request, known)

    def on_validation_error(request: Request, _: Exception) -> Response:
        return _answer(request, MalformedRequest())

    def on_http_error(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            return _answer(request, CuratorError())
        allow = (error.headers or {}).get("Allow")
        return problem_of_status(error.status_code, request.state.request_id, allow)

    app.add_exception_handler(CuratorError, on_curator_error)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(HTTPException, on_http_error)

    @app.middleware("http")
    async def shield(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        started = time.monotonic()
        request.state.request_id = secrets.token_hex(8)
        try:
            response = await call_next(request)
        except Exception:  # noqa: BLE001 - its text may hold anything, so it goes nowhere
            response = _answer(request, CuratorError())
        caller: Caller | None = getattr(request.state, "caller", None)
        telemetry.finished(
            _logger,
            FinishedRequest(
                request_id=request.state.request_id,
                method=_method(request),
                caller="" if caller is None else caller.name,
                outcome=str(response.status_code),
                seconds=time.monotonic() - started,
                reason=getattr(request.state, "reason", ""),
            ),
        )
        return response


def _answer(request: Request, error: CuratorError) -> Response:
    """Return a problem, or for a person at a page the same words as a page."""
    route = getattr(request.scope.get("route"), "path", "")
    is_person = route in _PAGES and "text/html" in request.headers.get("Accept", "")
    if is_person and isinstance(error, Unauthenticated) and "Authorization" not in request.headers:
        return RedirectResponse("/sign-in", 303, HEADERS)  # not a refusal: nothing was shown yet
    request.state.reason = error.reason
    request_id = request.state.request_id
    answer = problem_of(error, request_id)
    if not is_person:
        return answer
    return Page(
        "problem.html",
        answer.status_code,
        message=error.public_message,
        remedy=error.remedy,
        request_id=request_id,
    )


def _method(request: Request) -> str:
    """Return method and route as they are declared, so that there are only so many."""
    method = request.method if request.method in _METHODS else OTHER
    return f"REST {method} {getattr(request.scope.get('route'), 'path', OTHER)}"
