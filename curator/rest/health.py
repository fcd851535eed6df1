"""What a load balancer asks: beside everything else, and on a listener of its own."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, Response

from curator.rest.models import Readiness


def add_health(app: FastAPI, is_ready: Callable[[], bool]) -> None:
    """Add the two questions; no token is needed, and nothing is told."""

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", tags=["health"])
    def get_health() -> dict[str, str]:
        """Whether the process is alive."""
        return {"status": "alive"}

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", tags=["health"], responses={503: {"model": Readiness}})
    def get_readiness(response: Response) -> Readiness:
        """Whether the curator takes steps: it is not draining, and the ledger can be read."""
        ready = is_ready()
        response.status_code = 200 if ready else 503
        return Readiness(status="ready" if ready else "not ready")


def create_health_app(is_ready: Callable[[], bool]) -> FastAPI:
    """Build an application of nothing else, whose answers wait for nobody's requests."""
    app = FastAPI(title="Weir curator's health", openapi_url=None, docs_url=None, redoc_url=None)
    add_health(app, is_ready)
    return app
