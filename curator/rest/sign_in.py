"""Signing in with a token and out again: the only requests that change something here, a session.

The token comes in the body of a form over TLS and is not kept; the cookie holds a secret that no
script can read, no other site can send and no other host gets.
"""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import FastAPI, Request, Response
from fastapi.responses import RedirectResponse

from curator.errors import MalformedRequest, Unauthenticated
from curator.rest.authentication import COOKIE, refuse_other_sites
from curator.rest.body import read_body
from curator.rest.pages import HEADERS, Page
from curator.rest.sessions import SECONDS, Sessions

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
