"""Sessions of browsers: who may begin one, what it opens, and when it ends."""

from __future__ import annotations

import base64
import hashlib
import re
from urllib.parse import urlencode

import httpx
import pytest

from curator.errors import Unauthenticated
from curator.identity.tokens import TokenTable
from curator.rest.sessions import COOKIE, MOST_OF_ONE_CALLER, SECONDS, Sessions
from curator.service.caller import Caller, Role
from tests.fakes.http import ask
from tests.unit.curator.rest.conftest import Desk

HTML = {"Accept": "text/html,*/*"}
OWN = {**HTML, "Sec-Fetch-Site": "same-origin"}


def sign_in(desk: Desk, token: str, headers: dict[str, str] = OWN) -> httpx.Response:
    content = urlencode({"token": token}).encode()
    return ask(desk.app, "/sign-in", method="POST", headers=headers, content=content)


def cookie_of(answer: httpx.Response) -> dict[str, str]:
    found = re.match(rf"{COOKIE}=([\w-]+);", answer.headers["set-cookie"])
    assert found
    return {"Cookie": f"{COOKIE}={found[1]}"}


def test_a_stranger_is_shown_the_form_and_a_program_a_problem(desk: Desk) -> None:
    for path in ("/", "/dashboard"):
        answer = ask(desk.app, path, headers=HTML)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in")
        assert ask(desk.app, path).json()["reason"] == "UNAUTHENTICATED"
    form = ask(desk.app, "/sign-in")
    assert form.status_code == 200
    assert '<form method="post" action="/sign-in">' in form.text


def test_the_cookie_is_for_this_host_over_tls_and_no_script(desk: Desk) -> None:
    answer = sign_in(desk, desk.token["alice"])
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    words = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert words == {"httponly", "secure", "samesite=strict", "path=/", f"max-age={SECONDS}"}
    assert COOKIE.startswith("__Host-")
    assert desk.token["alice"] not in answer.headers["set-cookie"]


def test_a_session_opens_the_pages_and_nothing_else(desk: Desk) -> None:
    cookie = cookie_of(sign_in(desk, desk.token["steward"]))
    page = ask(desk.app, "/", headers=cookie)
    assert page.status_code == 200
    assert "Sign out" in page.text
    by_token = ask(desk.app, "/", headers=cookie, token=desk.token["alice"])
    assert "Sign out" not in by_token.text
    assert "<bdi>steward</bdi> <span" not in by_token.text
    assert ask(desk.app, f"/certificates/{desk.closed_run}", headers=cookie).status_code == 200
    for path in ("/v1/runs", "/v1/datasets", "/v1/ledger/head", "/metrics"):
        assert ask(desk.app, path, headers=cookie).status_code == 401


def test_a_wrong_token_is_refused_in_constant_words(desk: Desk) -> None:
    answer = sign_in(desk, "<b>wrong</b>")
    assert answer.status_code == 401
    assert Unauthenticated.public_message in answer.text
    assert "wrong" not in answer.text
    assert "set-cookie" not in answer.headers
    assert desk.scene.service.telemetry.refusals() == (("", "UNAUTHENTICATED", 1),)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 303),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://curator"}, 403),
        ({"Origin": "http://curator"}, 303),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://curator.evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
    ],
)
@pytest.mark.parametrize("path", ["/sign-in", "/sign-out"])
def test_forms_of_other_sites_are_refused(
    desk: Desk, path: str, headers: dict[str, str], status: int
) -> None:
    cookie = cookie_of(sign_in(desk, desk.token["alice"]))
    content = urlencode({"token": desk.token["bob"]}).encode()
    answer = ask(desk.app, path, method="POST", headers=headers | cookie, content=content)
    assert answer.status_code == status
    is_signed_out = path == "/sign-out" and status == 303
    assert (ask(desk.app, "/", headers=cookie).status_code == 401) == is_signed_out


@pytest.mark.parametrize(
    "content",
    [b"", b"token", b"token=a&token=b", b"token=a&more=b", b"\xff=1", b"token=" + b"a" * 5000],
)
def test_what_is_not_the_form_is_refused(desk: Desk, content: bytes) -> None:
    answer = ask(
        desk.app,
        "/sign-in",
        method="POST",
        headers={"Sec-Fetch-Site": "same-origin"},
        content=content,
    )
    assert (answer.status_code, answer.json()["reason"]) == (422, "MALFORMED_REQUEST")


def test_revoking_and_rotating_end_a_session_at_once(desk: Desk) -> None:
    first = cookie_of(sign_in(desk, desk.token["alice"]))
    desk.table.revoke("alice")
    assert ask(desk.app, "/", headers=first).status_code == 401
    second = cookie_of(sign_in(desk, desk.token["bob"]))
    desk.table.rotate("bob")
    assert ask(desk.app, "/", headers=second).status_code == 401


def test_signing_in_asks_nothing_of_the_ledger_and_writes_nothing(desk: Desk) -> None:
    head = desk.scene.ledger.head()
    cookie = cookie_of(sign_in(desk, desk.token["alice"]))
    ask(desk.app, "/", headers=cookie)
    ask(desk.app, "/sign-out", method="POST", headers=OWN | cookie)
    assert desk.scene.ledger.head() == head


def test_a_page_s_policy_allows_its_own_style_and_script_only(desk: Desk) -> None:
    for path, token in (("/", desk.token["alice"]), ("/sign-in", None)):
        answer = ask(desk.app, path, token=token)
        policy = dict(
            part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; ")
        )
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert "unsafe" not in str(policy)
        for directive, tag in (("style-src", "style"), ("script-src", "script")):
            for text in re.findall(rf"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL):
                digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
                assert policy[directive] == f"'sha256-{digest}'"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


class TestSessions:
    @pytest.fixture
    def now(self) -> list[float]:
        return [0.0]

    @pytest.fixture
    def sessions(self, table: TokenTable, now: list[float]) -> Sessions:
        return Sessions(table, lambda: now[0])

    def test_it_ends_after_its_time(
        self, table: TokenTable, sessions: Sessions, now: list[float]
    ) -> None:
        secret = sessions.begin(table.add("alice", Role.ANALYST))
        now[0] = SECONDS - 1
        assert sessions.caller(secret) == Caller("alice", Role.ANALYST)
        now[0] = SECONDS
        with pytest.raises(Unauthenticated):
            sessions.caller(secret)
        assert sessions._sessions == {}

    def test_a_caller_has_so_many_and_costs_nobody_else_theirs(
        self, table: TokenTable, sessions: Sessions
    ) -> None:
        bob = sessions.begin(table.add("bob", Role.ANALYST))
        token = table.add("alice", Role.ANALYST)
        secrets = [sessions.begin(token) for _ in range(MOST_OF_ONE_CALLER + 1)]
        with pytest.raises(Unauthenticated):
            sessions.caller(secrets[0])
        for secret in (*secrets[1:], bob):
            sessions.caller(secret)

    def test_neither_secret_nor_token_is_kept(self, table: TokenTable, sessions: Sessions) -> None:
        token = table.add("alice", Role.ANALYST)
        secret = sessions.begin(token)
        assert secret not in str(sessions._sessions)
        assert token not in str(sessions._sessions)
        with pytest.raises(Unauthenticated):
            sessions.begin("wrong")
