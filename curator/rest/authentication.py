"""Who asks over HTTP, and which routes a role may ask.

A test walks the application's routes and keeps the table total.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from curator.errors import NotPermitted
from curator.identity.tokens import TokenTable
from curator.rest.connections import PEER_CERTIFICATE
from curator.rest.sessions import COOKIE, Sessions
from curator.service.caller import Caller, Role

_BEARER = Depends(
    HTTPBearer(
        auto_error=False,
        description="The token of your credentials file; not needed with a client certificate.",
    )
)


def create_door(tokens: TokenTable, sessions: Sessions) -> Callable[..., None]:
    """Return what every route depends on."""

    def door(request: Request, offered: HTTPAuthorizationCredentials | None = _BEARER) -> None:
        """Find out who asks, and whether they may, before anything of the request is read."""
        route = request.scope["route"].path
        if route in OPEN_ROUTES:
            return
        certificate = request.scope.get(PEER_CERTIFICATE)
        secret = request.cookies.get(COOKIE)
        shows_nothing_else = certificate is None and offered is None
        if shows_nothing_else and secret is not None and route in BROWSER_ROUTES:
            caller = sessions.caller(secret)
            request.state.has_session = True
        else:
            authorization = None if offered is None else f"Bearer {offered.credentials}"
            caller = tokens.identify(authorization, certificate)
        request.state.caller = caller
        require_permission(route, caller.role)

    return door


def caller_of(request: Request) -> Caller:
    """Return who the door found."""
    caller: Caller = request.state.caller
    return caller


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
