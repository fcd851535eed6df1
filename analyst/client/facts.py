"""What the curator says about data sets, budgets and plans, as frozen values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from protos.weir.v1 import budget_pb2, dataset_pb2, run_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetFacts:
    """Facts that the steward declared; nothing here is read off the private images."""

    name: str
    channels: int
    height: int
    width: int
    classes: tuple[str, ...]
    nominal_size: int
    capacity: int
    sampling_rate: float
    epsilon: float
    delta: float
    adjacency: str
    unit: str
    mechanisms: tuple[str, ...]
    parameter_schemas: Mapping[str, Mapping[str, Any]] = field(repr=False)  # by mechanism
    max_samples: int
    policy: tuple[tuple[str, str], ...] = ()  # the steward's rules by name
    rehearsal: bool = False  # public data without a limit: nothing about it is a promise

    @classmethod
    def of(cls, message: dataset_pb2.DatasetFacts) -> Self:
        """Return the facts of a message.

        Args:
            message: As received.
        """
        return cls(
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """The analyst's own cap below the data set's, and what its runs used of it, measured alone."""

    epsilon: float
    spent: float
    reserved: float
    remaining: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What is left of a data set, over all analysts; every epsilon is at `delta`.

    `epsilon` is what the steward allows now, at most `registered_epsilon`.
    """

    dataset: str
    epsilon: float
    registered_epsilon: float
    delta: float
    spent: float
    reserved: float
    remaining: float
    adjacency: str
    unit: str
    accountant: str
    status: str
    share: Share | None

    @classmethod
    def of(cls, message: budget_pb2.BudgetStatement) -> Self:
        """Return the statement of a message.

        Args:
            message: As received.
        """
        told, share = message.share, None
        if message.HasField("share"):
            share = Share(
                epsilon=told.epsilon,
                spent=told.spent,
                reserved=told.reserved,
                remaining=told.remaining,
            )
        return cls(
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


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanPoint:
    """One row of a plan's table."""

    noise_multiplier: float
    num_steps: int
    epsilon_after: float
    fits: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a run would cost; nothing is charged by asking."""

    num_steps: int
    affordable_steps: int
    epsilon_after: float  # of the data set, by the ledger's rule
    epsilon_alone: float  # of this run alone, by privacy loss distributions; 0 if not asked
    fits: bool
    budget: Budget
    noise_multiplier: float
    points: tuple[PlanPoint, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def remaining(self) -> float:
        """Epsilon that is left before the run."""
        return self.budget.remaining

    @classmethod
    def of(cls, message: run_pb2.Plan) -> Self:
        """Return the plan of a message.

        Args:
            message: As received.
        """
        return cls(
            num_steps=message.num_steps,
            affordable_steps=message.affordable_steps,
            epsilon_after=message.epsilon_after,
            epsilon_alone=message.epsilon_alone,
            fits=message.fits,
            budget=Budget.of(message.budget),
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
