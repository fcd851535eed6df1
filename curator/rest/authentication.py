"""Who asks over HTTP: the connection's certificate, a token, or on the pages a session's cookie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from curator.errors import NotPermitted
from curator.identity.tokens import TokenTable
from curator.rest.connection import PEER_CERTIFICATE
from curator.rest.permissions import BROWSER_ROUTES, OPEN_ROUTES, require_permission
from curator.rest.sessions import Sessions
from curator.service.caller import Caller

COOKIE: Final = "__Host-weir-session"
"""Browsers take a cookie of this prefix from a secure origin only, and for this host only."""

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


def refuse_other_sites(request: Request) -> None:
    """Check that a form was sent by a page of this curator.

    Args:
        request: Of a browser; those that say nothing of where they come from are refused too.

    Raises:
        NotPermitted: If it was not.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is None:
        origin = request.headers.get("Origin", "")
        is_own = bool(origin) and urlsplit(origin).netloc == request.headers.get("Host")
    else:
        is_own = site == "same-origin"
    if not is_own:
        raise NotPermitted
