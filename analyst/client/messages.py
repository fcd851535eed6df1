"""Values of what a curator answers: `analyst.facts` out of messages."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, TypeVar

from google.protobuf.message import Message

from analyst.facts import Budget, DatasetFacts, Plan, PlanPoint, RunList, RunSummary, Share
from protos.weir.v1 import budget_pb2, dataset_pb2, run_pb2

_Value = TypeVar("_Value")


def value_of(kind: type[_Value], message: Message, **others: Any) -> _Value:
    """Return a frozen value; fields of the same name are taken as they are.

    Args:
        kind: A dataclass.
        message: What was received.
        others: Fields that the message has under another name, or in another form.
    """
    names = (one.name for one in fields(kind) if one.name not in others)  # type: ignore[arg-type]
    return kind(**{name: getattr(message, name) for name in names}, **others)


def dataset_facts(message: dataset_pb2.DatasetFacts) -> DatasetFacts:
    """Return the facts of a data set."""
    schemas = {one.mechanism: json.loads(one.parameters_schema) for one in message.mechanisms}
    return value_of(
        DatasetFacts,
        message,
        name=message.dataset,
        classes=tuple(message.classes),
        mechanisms=tuple(schemas),
        parameter_schemas=schemas,
        policy=tuple((one.rule, one.value) for one in message.policy),
    )


def budget(message: budget_pb2.BudgetStatement) -> Budget:
    """Return what is left of a data set."""
    share = value_of(Share, message.share) if message.HasField("share") else None
    return value_of(Budget, message, share=share)


def plan(message: run_pb2.Plan) -> Plan:
    """Return what a run would cost."""
    return value_of(
        Plan,
        message,
        remaining=message.budget.remaining,
        budget=budget(message.budget),
        points=tuple(value_of(PlanPoint, point) for point in message.points),
        advice=tuple(message.advice),
    )


def run_list(message: run_pb2.ListRunsResponse) -> RunList:
    """Return where runs stand."""
    runs = tuple(
        value_of(RunSummary, one, is_open=one.status == run_pb2.RUN_STATUS_OPEN)
        for one in message.runs
    )
    return RunList(runs=runs, num_left_out=message.num_left_out)
