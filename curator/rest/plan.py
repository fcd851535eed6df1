"""Plans over HTTP: the same question as over gRPC, and the same numbers; charges nothing."""

from __future__ import annotations

import json
from typing import Any, Literal, Self

from fastapi import Depends, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from curator.errors import MalformedRequest
from curator.planning.planner import Plan, Planner, PlanRequest
from curator.planning.table import MOST_POINTS, Axis
from curator.rest.authentication import caller_of
from curator.rest.connections import read_body
from curator.rest.models import BudgetAnswer
from curator.service.caller import Caller

_CALLER = Depends(caller_of)
_MOST_BYTES = 64 * 1024


class PlanQuestion(BaseModel):
    """What a run would cost. With `num_steps` and `epsilon` the noise is solved for.

    `parameters` are those that OpenRun takes. `over` is what differs from row to row of `points`.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    mechanism: str
    parameters: dict[str, Any]
    num_steps: int | None = None
    epsilon: float | None = None
    alone: bool = False
    over: Literal["steps", "epsilon", "noise"] = "steps"
    points: int = Field(default=8, ge=0, le=MOST_POINTS)


class PlanRow(BaseModel):
    """One row of the table."""

    noise_multiplier: float
    num_steps: int
    epsilon_after: float | None
    fits: bool


class PlanAnswer(BaseModel):
    """A plan by the ledger's rule; `epsilon_alone` is of the run alone, when it was asked.

    An epsilon is null where none is finite. `advice` says what the plan wastes.
    """

    dataset: str
    mechanism: str
    num_steps: int
    affordable_steps: int
    noise_multiplier: float
    epsilon_after: float | None
    epsilon_alone: float | None
    remaining: float
    fits: bool
    points: list[PlanRow]
    advice: list[str]
    budget: BudgetAnswer

    @classmethod
    def of(cls, plan: Plan, mechanism: str) -> Self:
        """Return the answer for one plan."""
        return cls(
            dataset=plan.statement.dataset,
            mechanism=mechanism,
            num_steps=plan.num_steps,
            affordable_steps=plan.affordable_steps,
            noise_multiplier=plan.noise_multiplier,
            epsilon_after=_finite(plan.epsilon_after),
            epsilon_alone=_finite(plan.epsilon_alone),
            remaining=plan.statement.remaining_epsilon,
            fits=plan.fits,
            points=[
                PlanRow(
                    noise_multiplier=point.noise_multiplier,
                    num_steps=point.num_steps,
                    epsilon_after=_finite(point.epsilon_after),
                    fits=point.fits,
                )
                for point in plan.points
            ],
            advice=list(plan.advice),
            budget=BudgetAnswer.of(plan.statement, []),
        )


def add_plan(app: FastAPI, planner: Planner) -> None:
    """Add the route."""
    body = {"content": {"application/json": {"schema": PlanQuestion.model_json_schema()}}}

    @app.post(
        "/v1/datasets/{name}/plan",
        tags=["datasets"],
        openapi_extra={"requestBody": {"required": True, **body}},
    )
    async def post_plan(name: str, request: Request, who: Caller = _CALLER) -> PlanAnswer:
        """What steps cost, what an epsilon buys, or which noise reaches both; charges nothing."""
        question = _question(await read_body(request, _MOST_BYTES))
        return await run_in_threadpool(_plan, planner, who, name, question)


def _question(body: bytes) -> PlanQuestion:
    """Read the body.

    Raises:
        MalformedRequest: With the field that is not valid; values are never repeated.
    """
    try:
        return PlanQuestion.model_validate_json(body)
    except ValidationError as error:
        field = str((error.errors(include_input=False)[0]["loc"] or ("body",))[0])
        known = field if field in PlanQuestion.model_fields else "body"
        msg = f"{known} is not valid"
        raise MalformedRequest(msg, known) from None


def _plan(planner: Planner, who: Caller, name: str, question: PlanQuestion) -> PlanAnswer:
    plan = planner.plan(
        who,
        PlanRequest(
            dataset=name,
            mechanism=question.mechanism,
            parameters_json=json.dumps(question.parameters),
            num_steps=question.num_steps,
            epsilon=question.epsilon,
            alone=question.alone,
            axis=Axis(question.over),
            points=question.points,
        ),
    )
    return PlanAnswer.of(plan, question.mechanism)


def _finite(value: float | None) -> float | None:
    return None if value is None or value == float("inf") else value
