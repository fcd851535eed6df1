"""The plan over HTTP has the numbers of the plan over gRPC, and asks the same of the caller."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from curator.identity.certificates import fingerprint_of
from curator.rpc.codec import decode_plan_request, encode_plan
from curator.service.caller import Caller, Role
from protos.weir.v1 import run_pb2
from tests.fakes.curator import planner
from tests.fakes.http import ask
from tests.unit.curator.rest.conftest import Desk

CRITICS: dict[str, Any] = {
    "num_critics": 2, "shard_capacity": 4, "num_samples": 4, "clip_norm": 0.5,
    "noise_multiplier": 30.0, "critic": "mlp", "critic_width": 2, "critic_seed": 1,
    "critic_batch": 2, "critic_steps": 1, "warm_start_steps": 1, "critic_learning_rate": 0.01,
    "gradient_penalty": 1.0,
}  # fmt: skip
QUESTION: dict[str, Any] = {"mechanism": "gs-wgan-mean", "parameters": CRITICS}
ROUTE = "/v1/datasets/digits/plan"
AXES = {
    "steps": run_pb2.PLAN_AXIS_STEPS,
    "epsilon": run_pb2.PLAN_AXIS_EPSILON,
    "noise": run_pb2.PLAN_AXIS_NOISE,
}


def post(desk: Desk, question: dict[str, Any] | bytes, who: str | None = "alice") -> httpx.Response:
    content = question if isinstance(question, bytes) else json.dumps(question).encode()
    token = None if who is None else desk.token[who]
    return ask(desk.app, ROUTE, method="POST", token=token, content=content)


@pytest.mark.parametrize("over", ["steps", "epsilon", "noise"])
@pytest.mark.parametrize(
    "target", [{}, {"num_steps": 40}, {"epsilon": 4.0}, {"num_steps": 40, "epsilon": 4.0}]
)
def test_both_wires_say_the_same(desk: Desk, over: str, target: dict[str, Any]) -> None:
    answer = post(desk, QUESTION | target | {"over": over, "points": 3}).json()
    message = run_pb2.PlanRunRequest(
        dataset="digits",
        choice=run_pb2.MechanismChoice(mechanism="gs-wgan-mean", parameters=json.dumps(CRITICS)),
        without_alone=True,
        table=run_pb2.PlanTable(axis=AXES[over], points=3),
    )
    if len(target) == 2:
        message.noise.num_steps, message.noise.epsilon = 40, 4.0
    elif target:
        (key, value) = next(iter(target.items()))
        setattr(message, key, value)
    alice = Caller("alice", Role.ANALYST)
    told = encode_plan(planner(desk.scene.service).plan(alice, decode_plan_request(message)))
    for key in ("num_steps", "affordable_steps", "noise_multiplier", "epsilon_after", "fits"):
        assert answer[key] == getattr(told, key)
    assert answer["advice"] == list(told.advice)
    assert answer["remaining"] == told.budget.remaining
    assert [(row["noise_multiplier"], row["num_steps"], row["epsilon_after"], row["fits"])
            for row in answer["points"]] == [
        (row.noise_multiplier, row.num_steps, row.epsilon_after, row.fits) for row in told.points
    ]  # fmt: skip


def test_the_run_alone_is_there_when_it_is_asked(desk: Desk) -> None:
    question = QUESTION | {"num_steps": 3}
    assert post(desk, question).json()["epsilon_alone"] is None
    assert post(desk, question | {"alone": True}).json()["epsilon_alone"] > 0


@pytest.mark.parametrize(
    ("who", "status"), [("alice", 200), ("steward", 200), ("auditor", 403), (None, 401)]
)
def test_it_is_for_those_who_may_plan_over_grpc(desk: Desk, who: str | None, status: int) -> None:
    assert post(desk, QUESTION, who).status_code == status


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{", b"{}", b"\xff", b"null",
        json.dumps(QUESTION | {"unknown": 1}).encode(),
        json.dumps(QUESTION | {"points": 51}).encode(),
        json.dumps(QUESTION | {"over": "time"}).encode(),
        json.dumps(QUESTION | {"num_steps": 0}).encode(),
        json.dumps(QUESTION | {"epsilon": -1}).encode(),
        json.dumps({**QUESTION, "parameters": {"noise_multiplier": float("nan")}}).encode(),
        json.dumps({**QUESTION, "mechanism": "none"}).encode(),
        b" " * 70_000,
    ],
    ids=range(14),
)  # fmt: skip
def test_a_question_that_is_not_valid_is_a_problem(desk: Desk, body: bytes) -> None:
    answer = post(desk, body)
    assert answer.status_code == 422
    assert answer.json()["reason"] == "MALFORMED_REQUEST"


def test_strangers_are_refused_before_their_body_is_read(desk: Desk) -> None:
    answer = post(desk, b" " * 10_000_000, who=None)
    assert answer.status_code == 401


def test_a_data_set_that_is_not_there(desk: Desk) -> None:
    answer = ask(desk.app, "/v1/datasets/none/plan", method="POST", token=desk.token["alice"],
                 content=json.dumps(QUESTION).encode())  # fmt: skip
    assert (answer.status_code, answer.json()["reason"]) == (404, "UNKNOWN_DATASET")


def test_the_schema_says_what_is_asked(desk: Desk) -> None:
    schema = ask(desk.app, "/openapi.json").json()
    operation = schema["paths"]["/v1/datasets/{name}/plan"]["post"]
    asked = operation["requestBody"]["content"]["application/json"]["schema"]
    assert set(asked["required"]) == {"mechanism", "parameters"}
    assert {"num_steps", "epsilon", "over", "points", "alone"} <= set(asked["properties"])


@pytest.mark.parametrize("who", ["alice", "auditor"])
def test_the_key_that_signs_is_told_to_everybody_known(desk: Desk, who: str) -> None:
    answer = ask(desk.app, "/v1/identity", token=desk.token[who]).json()
    assert answer == {"certificate_key": "a2V5", "fingerprint": fingerprint_of(b"key")}
    assert ask(desk.app, "/v1/identity").status_code == 401
