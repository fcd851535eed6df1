"""The REST API: what the budget is, for whoever is known."""

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

from curator.errors import CuratorError, MalformedRequest
from curator.identity.tokens import TokenTable
from curator.rest.models import BudgetAnswer, Dataset, Head, Readiness, Run
from curator.rest.peer import PEER_CERTIFICATE
from curator.rest.permissions import OPEN_ROUTES, require_permission
from curator.rest.problems import document_problems, problem_of, problem_of_status
from curator.service.caller import Caller
from curator.service.context import Context
from curator.service.find_run import run_of
from curator.service.report import (
    describe_dataset,
    list_datasets,
    list_runs,
    policy_rules,
    report_budget,
    report_share,
)
from curator.telemetry.log import log_request

_logger = logging.getLogger(__name__)
_BEARER = Depends(
    HTTPBearer(
        auto_error=False,
        description="The token of your credentials file; not needed with a client certificate.",
    )
)


def create_app(context: Context, tokens: TokenTable, is_ready: Callable[[], bool]) -> FastAPI:
    """Build the application.

    Args:
        context: The collaborators of the use cases.
        tokens: Who may ask.
        is_ready: Whether the curator takes steps now.

    Returns:
        The application; it reads and never writes.
    """

    def door(request: Request, offered: HTTPAuthorizationCredentials | None = _BEARER) -> None:
        """Find out who asks, and whether they may, before anything of the request is read."""
        route = request.scope["route"].path
        if route in OPEN_ROUTES:
            return
        authorization = None if offered is None else f"Bearer {offered.credentials}"
        caller = tokens.identify(authorization, request.scope.get(PEER_CERTIFICATE))
        request.state.caller = caller
        require_permission(route, caller.role)

    app = FastAPI(
        title="Weir curator",
        summary="What a data set's privacy budget is; read-only.",
        version="1",
        dependencies=[Depends(door)],
    )
    _add_datasets(app, context)
    _add_runs(app, context)
    _add_health(app, is_ready)
    _add_shield(app)
    document_problems(app)
    return app


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


_CALLER = Depends(_caller)


def _add_datasets(app: FastAPI, context: Context) -> None:
    @app.get("/v1/datasets", tags=["datasets"])
    def get_datasets() -> list[Dataset]:
        """Public facts of every data set."""
        return [
            Dataset.of(facts, policy_rules(context, facts.name)) for facts in list_datasets(context)
        ]

    @app.get("/v1/datasets/{name}", tags=["datasets"])
    def get_dataset(name: str) -> Dataset:
        """Public facts of one data set."""
        return Dataset.of(describe_dataset(context, name), policy_rules(context, name))

    @app.get("/v1/datasets/{name}/budget", tags=["datasets"])
    def get_budget(name: str, who: Caller = _CALLER) -> BudgetAnswer:
        """What is spent and left of one data set, over all analysts, and your open runs."""
        statement = report_budget(context, name)
        runs = [Run.of(run) for run in list_runs(context, who, name) if run.is_open]
        return BudgetAnswer.of(statement, runs, report_share(context, who, name))


def _add_runs(app: FastAPI, context: Context) -> None:
    @app.get("/v1/runs", tags=["runs"])
    def get_runs(who: Caller = _CALLER) -> list[Run]:
        """Your runs, or all of them for the steward and the auditor."""
        return [Run.of(run) for run in list_runs(context, who)]

    @app.get("/v1/runs/{run_id}", tags=["runs"])
    def get_run(run_id: str, who: Caller = _CALLER) -> Run:
        """One of your runs."""
        return Run.of(run_of(context, who, run_id))

    @app.get("/v1/ledger/head", tags=["ledger"])
    def get_head() -> Head:
        """The ledger's last entry, to be kept elsewhere; for the steward and the auditor."""
        sequence, digest = context.ledger.head()
        return Head(sequence=sequence, digest=digest)


def _add_health(app: FastAPI, is_ready: Callable[[], bool]) -> None:
    """Add what a load balancer asks; no token is needed, and nothing is told."""

    @app.get("/healthz", tags=["health"])
    def get_health() -> dict[str, str]:
        """Whether the process is alive."""
        return {"status": "alive"}

    @app.get("/readyz", tags=["health"], responses={503: {"model": Readiness}})
    def get_readiness(response: Response) -> Readiness:
        """Whether the curator takes steps: it is not draining, and the ledger can be read."""
        ready = is_ready()
        response.status_code = 200 if ready else 503
        return Readiness(status="ready" if ready else "not ready")


def _add_shield(app: FastAPI) -> None:
    """Convert every exception to constant words, and log one line per request."""

    def on_curator_error(request: Request, error: Exception) -> JSONResponse:
        known = error if isinstance(error, CuratorError) else CuratorError()
        return problem_of(known, request.state.request_id)

    def on_validation_error(request: Request, _: Exception) -> JSONResponse:
        return problem_of(MalformedRequest(), request.state.request_id)

    def on_http_error(request: Request, error: Exception) -> JSONResponse:
        if not isinstance(error, HTTPException):
            return problem_of(CuratorError(), request.state.request_id)
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
        request.state.request_id = request_id = secrets.token_hex(8)
        try:
            response = await call_next(request)
        except Exception:  # noqa: BLE001 - its text may hold anything, so it goes nowhere
            response = problem_of(CuratorError(), request_id)
        caller: Caller | None = getattr(request.state, "caller", None)
        log_request(
            _logger,
            request_id=request_id,
            method=f"REST {request.method}",
            caller="" if caller is None else caller.name,
            outcome=str(response.status_code),
            seconds=time.monotonic() - started,
        )
        return response
