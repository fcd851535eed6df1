"""Who spent what: each analyst and each run alone, beside what all spent together."""

from __future__ import annotations

import re
from typing import Any

import pytest

from curator.rest.models import BudgetAnswer, Run
from tests.fakes.http import ask
from tests.unit.curator.rest.conftest import Desk

BUDGET = "/v1/datasets/digits/budget"


def answer(desk: Desk, who: str, path: str) -> Any:
    return ask(desk.app, path, token=desk.token[who]).json()


@pytest.mark.parametrize(
    ("who", "seen"),
    [
        ("alice", ["alice"]),
        ("bob", ["bob"]),
        ("steward", ["alice", "bob"]),
        ("auditor", ["alice", "bob"]),
    ],
)
def test_an_analyst_sees_the_own_epsilon_and_the_steward_everybody_s(
    desk: Desk, who: str, seen: list[str]
) -> None:
    spends = {one.analyst: one for one in desk.scene.ledger.spends("digits")}
    found = answer(desk, who, BUDGET)["analysts"]
    assert [one["analyst"] for one in found] == seen
    for one in found:
        assert one["spent"] == spends[one["analyst"]].spent_epsilon > 0
        assert one["reserved"] == spends[one["analyst"]].reserved_epsilon
    page = ask(desk.app, "/dashboard", token=desk.token[who]).text
    for name in ("alice", "bob"):
        told = re.search(rf'<th scope="row"><bdi>{name}</bdi></th><td class="number">([^<]+)', page)
        assert (told is not None) == (name in seen)
        if told is not None:
            assert told[1] == f"{spends[name].spent_epsilon:.4f}"
    assert "do not add up" in page


def test_a_run_is_measured_alone(desk: Desk) -> None:
    state = desk.scene.ledger.dataset("digits")
    for run_id, who in ((desk.open_run, "alice"), (desk.closed_run, "bob")):
        alone = state.spent_alone(desk.scene.ledger.run(run_id))
        assert answer(desk, who, f"/v1/runs/{run_id}")["epsilon_spent_alone"] == alone > 0
        (listed,) = answer(desk, who, "/v1/runs")
        assert listed["epsilon_spent_alone"] == alone
        page = ask(desk.app, "/dashboard", token=desk.token[who]).text
        assert f'<td class="number">{alone:.4f}</td>' in page
    (still_open,) = answer(desk, "alice", BUDGET)["open_runs"]
    assert still_open["epsilon_spent_alone"] > 0


def test_the_schema_says_that_they_do_not_add_up() -> None:
    for model in (BudgetAnswer, Run):
        schema = str(model.model_json_schema())
        assert "do not add up" in schema
