"""Runs are listed a page at a time, each caller's own, and the schema says how."""

from __future__ import annotations

import re

import pytest

from curator.overview.queries import MOST_CLOSED
from tests.fakes.http import ask
from tests.unit.curator.rest.conftest import Desk


def more_runs(desk: Desk, analyst: str, count: int) -> list[str]:
    """Open and close runs; return their ids, the last opened first."""
    made = []
    for _ in range(count):
        made.append(desk.scene.open("digits", analyst, 1))
        desk.scene.close(made[-1])
    return made[::-1]


def pages(desk: Desk, who: str, path: str) -> list[list[str]]:
    """Follow the links from a page on."""
    found: list[list[str]] = []
    while path:
        answer = ask(desk.app, path, token=desk.token[who])
        assert answer.status_code == 200
        found.append([run["run_id"] for run in answer.json()])
        following = re.fullmatch(r'<([^>]+)>; rel="next"', answer.headers.get("link", ""))
        path = following[1] if following else ""
    return found


def test_pages_have_every_run_once_the_last_opened_first(desk: Desk) -> None:
    bobs = more_runs(desk, "bob", 4)
    assert pages(desk, "bob", "/v1/runs?limit=2") == [bobs[:2], bobs[2:], [desk.closed_run]]
    everybody = [*bobs, desk.closed_run, desk.open_run]
    assert pages(desk, "auditor", "/v1/runs?limit=4") == [everybody[:4], everybody[4:]]
    assert pages(desk, "steward", "/v1/runs") == [everybody]
    assert pages(desk, "bob", f"/v1/runs?cursor={bobs[-1]}") == [[desk.closed_run]]


def test_a_run_that_is_opened_meanwhile_moves_no_page(desk: Desk) -> None:
    bobs = more_runs(desk, "bob", 3)
    first = ask(desk.app, "/v1/runs?limit=2", token=desk.token["bob"])
    more_runs(desk, "bob", 2)
    path = re.findall(r"<(.+)>", first.headers["link"])[0]
    assert pages(desk, "bob", path) == [[bobs[2], desk.closed_run], []]


def test_an_unasked_page_is_bounded(desk: Desk) -> None:
    bobs = more_runs(desk, "bob", 100)
    assert pages(desk, "bob", "/v1/runs") == [bobs, [desk.closed_run]]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=0", 422),
        ("limit=1001", 422),
        ("limit=many", 422),
        ("cursor=nothing", 404),
        ("cursor=" + "0" * 32, 404),
        ("cursor=OPEN", 404),  # alice's
    ],
)
def test_other_limits_and_cursors_are_problems(desk: Desk, query: str, status: int) -> None:
    path = "/v1/runs?" + query.replace("OPEN", desk.open_run)
    answer = ask(desk.app, path, token=desk.token["bob"])
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["remedy"]


def test_the_schema_names_limit_and_cursor(desk: Desk) -> None:
    (get,) = desk.app.openapi()["paths"]["/v1/runs"].values()
    told = {one["name"]: one for one in get["parameters"]}
    limit = told["limit"]["schema"]
    assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, 1000, 100)
    assert not told["cursor"]["required"]
    assert all(one["description"] for one in told.values())


def test_the_dashboard_shows_the_latest_closed_runs_and_counts_the_rest(desk: Desk) -> None:
    more_runs(desk, "bob", MOST_CLOSED)
    text = ask(desk.app, "/", token=desk.token["bob"]).text
    assert f"The latest {MOST_CLOSED} of {MOST_CLOSED + 1}" in text
    assert desk.closed_run[:12] not in text
