"""The table of permissions names every route, and what it does not name is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from curator.identity.tokens import TokenTable
from curator.rest.app import create_app
from curator.rest.permissions import OPEN_ROUTES, PERMISSIONS
from curator.service.caller import Role
from tests.fakes.http import ask


@pytest.fixture
def table(tmp_path: Path) -> TokenTable:
    return TokenTable(tmp_path / "callers.json")


@pytest.fixture
def app(table: TokenTable) -> FastAPI:
    return create_app(cast("Any", None), table, lambda: True)


def test_every_route_is_listed_and_nothing_else(app: FastAPI) -> None:
    routes = {route.path for route in app.routes if isinstance(route, APIRoute)}
    assert routes == set(PERMISSIONS) | OPEN_ROUTES


def test_routes_only_read(app: FastAPI) -> None:
    for route in app.routes:
        if isinstance(route, APIRoute):
            assert route.methods == {"GET"}


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
def test_the_ledger_s_head_is_for_steward_and_auditor(role: str, permitted: bool) -> None:
    assert (Role(role) in PERMISSIONS["/v1/ledger/head"]) == permitted
