"""The pages for people, and the metrics for Prometheus; both only read."""

from __future__ import annotations

from fastapi import Depends, FastAPI, Request, Response

from curator.clock import utc_now
from curator.errors import MalformedRequest
from curator.overview.certificate import Signer, issue_certificate
from curator.overview.metrics import measure
from curator.overview.summary import Shown, overview
from curator.planning.planner import Planner
from curator.rest.authentication import caller_of
from curator.rest.pages import HEADERS, Page
from curator.service.caller import Caller
from curator.service.find_run import run_of
from curator.telemetry.exposition import CONTENT_TYPE, expose

_CALLER = Depends(caller_of)


def add_dashboard(app: FastAPI, shown: Shown, planner: Planner, signer: Signer) -> None:
    """Add the page and the certificates of closed runs."""

    @app.get("/dashboard", include_in_schema=False, response_model=None)
    @app.get("/", include_in_schema=False, response_model=None)
    def get_page(request: Request, who: Caller = _CALLER) -> Page:
        """Everything that the caller may see."""
        view = overview(shown, who, utc_now())
        has_session = getattr(request.state, "has_session", False)
        return Page("dashboard.html", view=view, has_session=has_session)

    @app.get("/certificates/{run_id}", include_in_schema=False, response_model=None)
    def get_certificate(run_id: str, who: Caller = _CALLER) -> Response:
        """The signed certificate of a closed run, as a file.

        Raises:
            MalformedRequest: If the run is open.
        """
        state = run_of(shown.ledger, who, run_id)
        if state.is_open:
            msg = "run_id: the run is open; its certificate is made when it is closed"
            raise MalformedRequest(msg, "run_id")
        name = f'attachment; filename="certificate-{state.run_id}.json"'
        return Response(
            issue_certificate(planner, state, signer),
            headers={**HEADERS, "Content-Disposition": name},
            media_type="application/json",
        )


def add_metrics(app: FastAPI, shown: Shown) -> None:
    """Add the metrics, for the steward's and the auditor's credentials."""

    @app.get("/metrics", include_in_schema=False, response_model=None)
    def get_metrics() -> Response:
        """Public facts, as Prometheus reads them."""
        text = expose([*shown.telemetry.samples(), *measure(shown)])
        return Response(text, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})
