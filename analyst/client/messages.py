"""Values of what a curator answers: `analyst.facts` out of messages."""

from __future__ import annotations

import json

from analyst.facts import Budget, DatasetFacts, Plan, PlanPoint, RunList, RunSummary, Share
from protos.weir.v1 import budget_pb2, dataset_pb2, run_pb2


def dataset_facts(message: dataset_pb2.DatasetFacts) -> DatasetFacts:
    """Return the facts of a data set."""
    return DatasetFacts(
        name=message.dataset,
        channels=message.channels,
        height=message.height,
        width=message.width,
        classes=tuple(message.classes),
        nominal_size=message.nominal_size,
        capacity=message.capacity,
        sampling_rate=message.sampling_rate,
        epsilon=message.epsilon,
        delta=message.delta,
        adjacency=message.adjacency,
        unit=message.unit,
        mechanisms=tuple(one.mechanism for one in message.mechanisms),
        parameter_schemas={
            one.mechanism: json.loads(one.parameters_schema) for one in message.mechanisms
        },
        max_samples=message.max_samples,
        policy=tuple((one.rule, one.value) for one in message.policy),
        rehearsal=message.rehearsal,
    )


def budget(message: budget_pb2.BudgetStatement) -> Budget:
    """Return what is left of a data set."""
    own, share = message.share, None
    if message.HasField("share"):
        share = Share(
            epsilon=own.epsilon, spent=own.spent, reserved=own.reserved, remaining=own.remaining
        )
    return Budget(
        dataset=message.dataset,
        epsilon=message.epsilon,
        registered_epsilon=message.registered_epsilon,
        delta=message.delta,
        spent=message.spent,
        reserved=message.reserved,
        remaining=message.remaining,
        adjacency=message.adjacency,
        unit=message.unit,
        accountant=message.accountant,
        status=message.status,
        share=share,
    )


def plan(message: run_pb2.Plan) -> Plan:
    """Return what a run would cost."""
    return Plan(
        num_steps=message.num_steps,
        affordable_steps=message.affordable_steps,
        epsilon_after=message.epsilon_after,
        epsilon_alone=message.epsilon_alone,
        remaining=message.budget.remaining,
        fits=message.fits,
        budget=budget(message.budget),
        noise_multiplier=message.noise_multiplier,
        points=tuple(
            PlanPoint(
                noise_multiplier=point.noise_multiplier,
                num_steps=point.num_steps,
                epsilon_after=point.epsilon_after,
                fits=point.fits,
            )
            for point in message.points
        ),
        advice=tuple(message.advice),
    )


def run_list(message: run_pb2.ListRunsResponse) -> RunList:
    """Return where runs stand."""
    runs = tuple(
        RunSummary(
            run_id=one.run_id,
            dataset=one.dataset,
            analyst=one.analyst,
            mechanism=one.mechanism,
            is_open=one.status == run_pb2.RUN_STATUS_OPEN,
            num_steps=one.num_steps,
            used_steps=one.used_steps,
            close_reason=one.close_reason,
            opened_at=one.opened_at,
            closed_at=one.closed_at,
            one_release=one.one_release,
        )
        for one in message.runs
    )
    return RunList(runs=runs, num_left_out=message.num_left_out)
