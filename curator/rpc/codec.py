"""Translate between messages and the service's values; every check is about the request alone."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Final

import torch

from curator.errors import MalformedRequest
from curator.ledger.ledger import NOTHING, Account, RunState, RunStatus, Statement
from curator.mechanisms.catalogue import mechanism_names, parameter_schema
from curator.planning.planner import Plan, PlannedRun, PlanRequest
from curator.planning.table import Axis
from curator.privacy.batches import Samples
from curator.privacy.facts import DatasetFacts
from curator.rpc.messages import PART_BYTES
from curator.rpc.release_codec import describe_blocks, encode_blocks
from curator.rpc.tensor_codec import (
    VALUE_MAX,
    VALUE_MIN,
    decode_features,
    decode_images,
    decode_labels,
)
from curator.service.answer_step import StepRequest
from curator.service.live_run import Answer
from protos.weir.v1 import budget_pb2, dataset_pb2, release_pb2, run_pb2

_DECLARED: Final = (
    DatasetFacts.model_fields.keys() & dataset_pb2.DatasetFacts.DESCRIPTOR.fields_by_name
)
"""Facts that go as they were declared: those for which the message has a field."""


def decode_step(
    message: release_pb2.StepRequest,
    facts: DatasetFacts,
    max_samples: int,
    rows_beside: memoryview | None = None,
) -> StepRequest:
    """Decode and validate a step.

    Args:
        message: As received.
        facts: The data set's public facts.
        max_samples: Most rows of one step.
        rows_beside: The bytes of images or features that came beside the message, in memory that
            nobody else writes to; they are not copied.

    Raises:
        MalformedRequest: If a field is not valid; the detail names it and never echoes values.
    """
    if message.step < 1:
        msg = "step is counted from 1"
        raise MalformedRequest(msg, "step")
    weights = message.weights  # each reading of the field is a copy
    if weights or message.HasField("features"):
        rows, labels = decode_features(message, max_samples, rows_beside)
    else:
        rows = decode_images(message.images, facts, max_samples, rows_beside)
        labels = decode_labels(message.labels, len(rows), len(facts.classes))
    samples = Samples(
        images_ND=torch.from_numpy(rows.reshape(len(rows), -1)),
        labels_N=torch.from_numpy(labels),
        weights=weights,
    )
    return StepRequest(run_id=message.run_id, step=message.step, samples=samples)


def encode_answer(
    run_id: str, answer: Answer, beside: list[memoryview] | None = None
) -> release_pb2.StepResponse:
    """Encode the reply to a step: nothing but a `Release` and public ledger facts.

    Args:
        run_id: The run.
        answer: To one of its steps.
        beside: Gets the numbers of the blocks, where they are to come beside the message.

    Returns:
        The message; lattice integers as int32 when they fit, which depends on released values only.
    """
    message = release_pb2.StepResponse(
        run_id=run_id,
        step=answer.step,
        spent_epsilon=answer.spent_epsilon,
        budget_epsilon=answer.budget_epsilon,
    )
    if beside is None:
        encode_blocks(answer.release, message.gradient)
    else:
        beside += describe_blocks(answer.release, message.gradient)
    return message


@functools.cache
def _schema_text(mechanism: str) -> str:
    return json.dumps(parameter_schema(mechanism))


def encode_facts(
    facts: DatasetFacts, max_samples: int, rules: Mapping[str, str]
) -> dataset_pb2.DatasetFacts:
    """Encode public facts.

    Args:
        facts: What the steward declared; `max_size` stays with the steward.
        max_samples: Most images of one step.
        rules: Of the steward's policy.
    """
    declared = {name: getattr(facts, name) for name in _DECLARED}
    return dataset_pb2.DatasetFacts(
        **{name: value for name, value in declared.items() if value is not None},
        dataset=facts.name,
        value_min=VALUE_MIN,
        value_max=VALUE_MAX,
        adjacency=str(facts.adjacency),
        mechanisms=[
            dataset_pb2.MechanismFacts(mechanism=name, parameters_schema=_schema_text(name))
            for name in mechanism_names()
        ],
        max_samples=max_samples,
        policy=[dataset_pb2.PolicyRule(rule=rule, value=value) for rule, value in rules.items()],
    )


def encode_statement(
    statement: Statement, share: Account | None = None
) -> budget_pb2.BudgetStatement:
    """Encode what is left of a data set.

    Args:
        statement: By the ledger.
        share: The caller's own cap, if there is one.
    """
    message = budget_pb2.BudgetStatement(
        dataset=statement.dataset,
        adjacency=str(statement.adjacency),
        unit=statement.adjacency.unit,
        accountant=statement.accountant,
        epsilon=statement.cap,
        registered_epsilon=statement.budget.epsilon,
        delta=statement.budget.delta,
        spent=statement.spent_epsilon,
        reserved=statement.reserved_epsilon,
        remaining=statement.remaining_epsilon,
        status=statement.status,
    )
    if share is not None:
        numbers = share.numbers(NOTHING)
        message.share.epsilon = numbers.budget
        message.share.spent, message.share.reserved = numbers.spent, numbers.reserved
        message.share.remaining = numbers.remaining
    return message


def encode_run(
    state: RunState, next_step: int, budget: budget_pb2.BudgetStatement, certificate: str
) -> run_pb2.RunState:
    """Encode where a run stands.

    Args:
        state: By the ledger.
        next_step: What the holder expects next.
        budget: Of the run's data set, and the share of the run's analyst.
        certificate: Of a closed run, else empty.
    """
    is_open = state.status is RunStatus.OPEN
    return run_pb2.RunState(
        run_id=state.run_id,
        dataset=state.dataset,
        choice=run_pb2.MechanismChoice(mechanism=state.mechanism, parameters=state.parameters_json),
        status=run_pb2.RUN_STATUS_OPEN if is_open else run_pb2.RUN_STATUS_CLOSED,
        num_steps=state.num_steps,
        next_step=next_step,
        used_steps=state.used,
        close_reason=state.close_reason or "",
        budget=budget,
        certificate=certificate,
        part_bytes=PART_BYTES,
    )


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
        share=1.0 if noise is None else noise.share or 1.0,
        before=tuple(
            PlannedRun(
                mechanism=one.choice.mechanism,
                parameters_json=one.choice.parameters,
                num_steps=one.num_steps,
            )
            for one in request.before
        ),
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


def encode_runs(states: Iterable[RunState], num_left_out: int = 0) -> run_pb2.ListRunsResponse:
    """Encode runs.

    Args:
        states: That the caller may see and asked for, in the order to be shown.
        num_left_out: Closed runs that were one too many.
    """
    return run_pb2.ListRunsResponse(
        runs=[_summary(state) for state in states], num_left_out=num_left_out
    )


def _summary(state: RunState) -> run_pb2.RunSummary:
    status = run_pb2.RUN_STATUS_OPEN if state.is_open else run_pb2.RUN_STATUS_CLOSED
    return run_pb2.RunSummary(
        run_id=state.run_id,
        dataset=state.dataset,
        analyst=state.analyst,
        mechanism=state.mechanism,
        status=status,
        num_steps=state.num_steps,
        used_steps=state.used,
        close_reason=state.close_reason,
        opened_at=state.opened_at,
        closed_at=state.closed_at,
        one_release=state.is_one_release,
    )
