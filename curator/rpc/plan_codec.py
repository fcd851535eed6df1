"""Plans as messages: a question with its target and table, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from curator.errors import MalformedRequest
from curator.planning.planner import Plan, PlanRequest
from curator.planning.table import Axis
from curator.rpc.codec import encode_statement
from protos.weir.v1 import run_pb2

_AXES: Final[Mapping[int, Axis]] = {
    run_pb2.PLAN_AXIS_STEPS: Axis.STEPS,
    run_pb2.PLAN_AXIS_EPSILON: Axis.EPSILON,
    run_pb2.PLAN_AXIS_NOISE: Axis.NOISE,
}


def decode_plan_request(request: run_pb2.PlanRunRequest) -> PlanRequest:
    """Decode a question about a run.

    Returns:
        The use case's request.

    Raises:
        MalformedRequest: If the table has an axis of another version.
    """
    target = request.WhichOneof("target")
    noise = request.noise if target == "noise" else None
    num_steps = request.num_steps if target == "num_steps" else None
    epsilon = request.epsilon if target == "epsilon" else None
    if request.table.points and request.table.axis not in _AXES:
        msg = "table.axis: no such axis"
        raise MalformedRequest(msg, "table.axis")
    return PlanRequest(
        dataset=request.dataset,
        mechanism=request.choice.mechanism,
        parameters_json=request.choice.parameters,
        num_steps=num_steps if noise is None else noise.num_steps,
        epsilon=epsilon if noise is None else noise.epsilon,
        alone=not request.without_alone,
        axis=_AXES.get(request.table.axis, Axis.STEPS),
        points=request.table.points,
    )


def encode_plan(plan: Plan) -> run_pb2.Plan:
    """Encode a plan."""
    return run_pb2.Plan(
        num_steps=plan.num_steps,
        affordable_steps=plan.affordable_steps,
        epsilon_after=plan.epsilon_after,
        epsilon_alone=plan.epsilon_alone or 0.0,
        fits=plan.fits,
        budget=encode_statement(plan.statement, plan.share),
        noise_multiplier=plan.noise_multiplier,
        points=[run_pb2.PlanPoint(**asdict(point)) for point in plan.points],
        advice=plan.advice,
    )
