"""The REST API: what the budget is, for whoever holds a token."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from curator.errors import (
    CuratorError,
    MalformedRequest,
    NotPermitted,
    RequestError,
    Unauthenticated,
    Unavailable,
    UnknownDataset,
    UnknownRun,
)
from curator.identity.tokens import TokenTable
from curator.rest.models import BudgetAnswer, Dataset, Problem, Run
from curator.service.caller import Caller
from curator.service.context import Context
from curator.service.find_run import run_of
from curator.service.report import describe_dataset, list_datasets, list_runs, report_budget
from curator.telemetry.log import log_request

_logger = logging.getLogger(__name__)
_STATUS: tuple[tuple[type[CuratorError], int], ...] = (
    (Unauthenticated, 401),
    (NotPermitted, 403),
    (UnknownDataset, 404),
    (UnknownRun, 404),
    (MalformedRequest, 422),
    (RequestError, 400),
    (Unavailable, 503),
    (CuratorError, 500),
)
_PROBLEMS: dict[int | str, dict[str, object]] = {
    status: {"model": Problem} for status in (401, 404, 422, 500, 503)
}


def create_app(context: Context, tokens: TokenTable, is_ready: Callable[[], bool]) -> FastAPI:
    """Build the application.

    Args:
        context: The collaborators of the use cases.
        tokens: Who may ask.
        is_ready: Whether the curator takes steps now.

    Returns:
        The application; it reads and never writes.
    """
    app = FastAPI(
        title="Weir curator",
        summary="What a data set's privacy budget is; read-only.",
        version="1",
        responses=_PROBLEMS,
    )
    bearer = HTTPBearer(auto_error=False, description="The token of your credentials file.")

    offered_token = Depends(bearer)

    def caller(credentials: HTTPAuthorizationCredentials | None = offered_token) -> Caller:
        offered = None if credentials is None else f"Bearer {credentials.credentials}"
        return tokens.authenticate(offered)

    known_caller = Depends(caller)

    @app.get("/v1/datasets", tags=["datasets"], dependencies=[known_caller])
    def get_datasets() -> list[Dataset]:
        """Public facts of every data set."""
        return [Dataset.of(facts) for facts in list_datasets(context)]

    @app.get("/v1/datasets/{name}", tags=["datasets"], dependencies=[known_caller])
    def get_dataset(name: str) -> Dataset:
        """Public facts of one data set."""
        return Dataset.of(describe_dataset(context, name))

    @app.get("/v1/datasets/{name}/budget", tags=["datasets"])
    def get_budget(name: str, who: Caller = known_caller) -> BudgetAnswer:
        """What is spent and left of one data set, over all analysts, and your open runs."""
        statement = report_budget(context, name)
        runs = [Run.of(run) for run in list_runs(context, who, name) if run.is_open]
        return BudgetAnswer.of(statement, runs)

    @app.get("/v1/runs", tags=["runs"])
    def get_runs(who: Caller = known_caller) -> list[Run]:
        """Your runs, or all of them for the steward."""
        return [Run.of(run) for run in list_runs(context, who)]

    @app.get("/v1/runs/{run_id}", tags=["runs"])
    def get_run(run_id: str, who: Caller = known_caller) -> Run:
        """One of your runs."""
        return Run.of(run_of(context, who, run_id))

    _add_health(app, is_ready)
    _add_shield(app)
    return app


def _add_health(app: FastAPI, is_ready: Callable[[], bool]) -> None:
    """Add what a load balancer asks; no token is needed, and nothing is told."""

    @app.get("/healthz", tags=["health"])
    def get_health() -> dict[str, str]:
        """Whether the process is alive."""
        return {"status": "alive"}

    @app.get("/readyz", tags=["health"])
    def get_readiness(response: Response) -> dict[str, str]:
        """Whether the curator takes steps: it is not draining, and the ledger can be read."""
        ready = is_ready()
        response.status_code = 200 if ready else 503
        return {"status": "ready" if ready else "not ready"}


def _add_shield(app: FastAPI) -> None:
    """Convert every exception to constant words, and log one line per request."""

    def on_curator_error(_: Request, error: Exception) -> JSONResponse:
        known = error if isinstance(error, CuratorError) else CuratorError()
        return _problem(known)

    def on_validation_error(_: Request, __: Exception) -> JSONResponse:
        return _problem(MalformedRequest())

    def on_http_error(_: Request, error: Exception) -> JSONResponse:
        status = error.status_code if isinstance(error, HTTPException) else 500
        message = "There is nothing here." if status == 404 else "The request is not valid."
        problem = Problem(reason="HTTP", message=message, remedy="See /docs for what there is.")
        return JSONResponse(problem.model_dump(), status)

    app.add_exception_handler(CuratorError, on_curator_error)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(HTTPException, on_http_error)

    @app.middleware("http")
    async def shield(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        started = time.monotonic()
        try:
            response = await call_next(request)
        except Exception:  # noqa: BLE001 - its text may hold anything, so it goes nowhere
            response = _problem(CuratorError())
        log_request(
            _logger,
            request_id=secrets.token_hex(8),
            method=f"REST {request.method}",
            caller="",
            outcome=str(response.status_code),
            seconds=time.monotonic() - started,
        )
        return response


def _problem(error: CuratorError) -> JSONResponse:
    status = next(code for kind, code in _STATUS if isinstance(error, kind))
    problem = Problem(reason=error.reason, message=error.public_message, remedy=error.remedy)
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthenticated) else None
    return JSONResponse(problem.model_dump(), status, headers)
