"""Which role may ask for which route. A route that is not listed here is refused for everyone.

A test walks the application's routes and keeps the table total.
"""

from __future__ import annotations

from typing import Final

from curator.errors import NotPermitted
from curator.service.caller import Role

_EVERY_ROLE = frozenset(Role)
_READS_EVERYTHING = frozenset({Role.STEWARD, Role.AUDITOR})
_PLANS = frozenset({Role.STEWARD, Role.ANALYST})
"""Those who may over gRPC."""

OPEN_ROUTES: Final = frozenset({"/healthz", "/readyz", "/sign-in", "/sign-out"})
"""Answered to strangers too, as is the schema: they say nothing about data or callers."""

BROWSER_ROUTES: Final = frozenset({"/", "/dashboard", "/certificates/{run_id}"})
"""Those that a browser's session opens; a session is good for nothing else."""

PERMISSIONS: Final[dict[str, frozenset[Role]]] = {
    "/v1/datasets": _EVERY_ROLE,
    "/v1/datasets/{name}": _EVERY_ROLE,
    "/v1/datasets/{name}/budget": _EVERY_ROLE,
    "/v1/datasets/{name}/plan": _PLANS,
    "/v1/identity": _EVERY_ROLE,
    "/v1/runs": _EVERY_ROLE,
    "/v1/runs/{run_id}": _EVERY_ROLE,
    "/v1/ledger/head": _READS_EVERYTHING,
    "/": _EVERY_ROLE,
    "/dashboard": _EVERY_ROLE,
    "/certificates/{run_id}": _EVERY_ROLE,
    "/metrics": _READS_EVERYTHING,
}


def require_permission(route: str, role: Role) -> None:
    """Check that a role may ask for a route.

    Args:
        route: The path as it is declared, with the names of its parameters.
        role: Of the caller.

    Raises:
        NotPermitted: If it may not; the words never say why.
    """
    if role not in PERMISSIONS.get(route, frozenset()):
        raise NotPermitted
