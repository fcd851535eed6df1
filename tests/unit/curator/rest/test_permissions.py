"""The table of permissions names every route, and what it does not name is refused."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from curator.identity.tokens import TokenTable
from curator.rest.authentication import BROWSER_ROUTES, OPEN_ROUTES, PERMISSIONS
from curator.service.caller import Role
from tests.fakes.http import ask


def test_every_route_is_listed_and_nothing_else(app: FastAPI) -> None:
    routes = {route.path for route in app.routes if isinstance(route, APIRoute)}
    assert routes == set(PERMISSIONS) | OPEN_ROUTES


def test_routes_only_read_but_for_signing_in_and_out(app: FastAPI) -> None:
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    posted = {route.path for route in routes if "POST" in (route.methods or ())}
    assert posted == {"/sign-in", "/sign-out", "/v1/datasets/{name}/plan"}  # a plan charges nothing
    assert {method for route in routes for method in route.methods or ()} == {"GET", "HEAD", "POST"}


def test_a_browser_s_session_opens_pages_only() -> None:
    assert set(PERMISSIONS) > BROWSER_ROUTES
    assert not any(route.startswith(("/v1", "/metrics")) for route in BROWSER_ROUTES)


@pytest.mark.parametrize("role", Role)
def test_an_unlisted_route_is_refused_for_everyone(
    app: FastAPI, table: TokenTable, role: Role
) -> None:
    app.get("/v1/secret/{name}")(lambda name: name)
    token = table.add("someone", role)
    answer = ask(app, "/v1/secret/x", token=token)
    assert (answer.status_code, answer.json()["reason"]) == (403, "NOT_PERMITTED")
    stranger = ask(app, "/v1/secret/x")
    assert (stranger.status_code, stranger.json()["reason"]) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize(
    ("role", "permitted"), [("analyst", False), ("steward", True), ("auditor", True)]
)
@pytest.mark.parametrize("route", ["/v1/ledger/head", "/metrics"])
def test_head_and_metrics_are_for_steward_and_auditor(
    route: str, role: str, permitted: bool
) -> None:
    assert (Role(role) in PERMISSIONS[route]) == permitted
