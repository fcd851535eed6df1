"""Sessions of browsers: kept hashed in memory, for an hour, and only as long as the token holds.

A session stands for the token that began it and for nothing else: it is checked against the table
of callers at every request, so revoking or rotating the token ends it at once.

The token comes in the body of a form over TLS and is not kept; the cookie holds a secret that no
script can read, no other site can send and no other host gets.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final
from urllib.parse import parse_qs, urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from curator.errors import MalformedRequest, NotPermitted, Unauthenticated
from curator.identity.tokens import TokenTable, token_digest
from curator.rest.connections import read_body
from curator.rest.pages import HEADERS, Page
from curator.service.caller import Caller

COOKIE: Final = "__Host-weir-session"
"""Browsers take a cookie of this prefix from a secure origin only, and for this host only."""

SECONDS: Final = 3600
MOST_OF_ONE_CALLER: Final = 8


@dataclass(frozen=True, slots=True)
class _Session:
    caller: str
    digest: str
    ends_at: float  # monotonic seconds


@final
class Sessions:
    """The open sessions; a restart ends all of them."""

    def __init__(self, tokens: TokenTable, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Start with none.

        Args:
            tokens: Who may begin one, and whose still holds.
            monotonic: A clock that never goes back.
        """
        self._tokens = tokens
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._sessions: dict[str, _Session] = {}

    def begin(self, token: str) -> str:
        """Begin a session; a caller's oldest one ends when there are too many.

        Args:
            token: Of a known caller; anything else is `Unauthenticated`.

        Returns:
            The secret of the session; only its hash is kept.
        """
        digest = token_digest(token)
        caller = self._tokens.recognise(digest)
        secret = secrets.token_urlsafe(32)
        now = self._monotonic()
        with self._lock:
            self._drop_ended(now)
            own = [key for key, session in self._sessions.items() if session.caller == caller.name]
            for key in own[: max(0, len(own) - MOST_OF_ONE_CALLER + 1)]:
                del self._sessions[key]
            self._sessions[_key(secret)] = _Session(caller.name, digest, now + SECONDS)
        return secret

    def caller(self, secret: str) -> Caller:
        """Return whose session it is.

        Raises:
            Unauthenticated: If there is no such session, or it or its token has ended.
        """
        with self._lock:
            self._drop_ended(self._monotonic())
            session = self._sessions.get(_key(secret))
        if session is None:
            raise Unauthenticated
        try:
            return self._tokens.recognise(session.digest)
        except Unauthenticated:
            self.end(secret)
            raise

    def end(self, secret: str) -> None:
        """End a session, whether or not there is one."""
        with self._lock:
            self._sessions.pop(_key(secret), None)

    def _drop_ended(self, now: float) -> None:
        for key in [key for key, session in self._sessions.items() if session.ends_at <= now]:
            del self._sessions[key]


def _key(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


_MOST_BYTES = 4096


def add_sign_in(app: FastAPI, sessions: Sessions) -> None:
    """Add the form and what it is sent to."""

    @app.get("/sign-in", include_in_schema=False, response_model=None)
    def get_form() -> Page:
        """The form."""
        return _form("", 200)

    @app.post("/sign-in", include_in_schema=False, response_model=None)
    async def sign_in(request: Request) -> Response:
        """Begin a session for the token of the form."""
        refuse_other_sites(request)
        try:
            secret = sessions.begin(await _token(request))
            request.state.caller = sessions.caller(secret)
        except Unauthenticated as error:
            request.state.reason = error.reason
            return _form(error.public_message, 401)
        answer = _go_to("/")
        answer.set_cookie(
            COOKIE, secret, max_age=SECONDS, secure=True, httponly=True, samesite="strict"
        )
        return answer

    @app.post("/sign-out", include_in_schema=False, response_model=None)
    def sign_out(request: Request) -> Response:
        """End the session of this browser."""
        refuse_other_sites(request)
        sessions.end(request.cookies.get(COOKIE, ""))
        answer = _go_to("/sign-in")
        answer.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict")
        return answer


async def _token(request: Request) -> str:
    """Return the token of the form.

    Raises:
        MalformedRequest: If the body is too long, or is not a form with one token.
    """
    body = await read_body(request, _MOST_BYTES)
    try:
        fields = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=4)
    except ValueError:
        raise MalformedRequest from None
    if list(fields) != ["token"] or len(fields["token"]) != 1:
        raise MalformedRequest
    return fields["token"][0].strip()


def _form(refused: str, status: int) -> Page:
    return Page("sign_in.html", status, refused=refused, minutes=SECONDS // 60)


def _go_to(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303, HEADERS)


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
