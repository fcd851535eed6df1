"""A barrier without a curator: a ledger in memory, and gradients of a known quadratic.

The gradient is that of sum_i |image_i - template(label_i)|^2 / 2, plus noise that depends on run
and step alone, so that training visibly converges to the templates and a retry returns the same
bytes. Every step costs one unit of the budget; epsilon is that count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from analyst.errors import (
    AnalystError,
    BudgetExhausted,
    BudgetNumbers,
    RequestRefused,
)
from analyst.facts import (
    Budget,
    DatasetFacts,
    Plan,
    PlanPoint,
    PlanQuestion,
    RunList,
    RunSummary,
    Share,
)

_OPENED = "2026-01-02T03:04:05.678901+00:00"
ErrorT = TypeVar("ErrorT", bound=AnalystError)


@dataclass(frozen=True, kw_only=True)
class FakeDataset(DatasetFacts):
    name: str = "digits"
    channels: int = 1
    height: int = 8
    width: int = 8
    classes: tuple[str, ...] = tuple("0123456789")
    nominal_size: int = 1437
    capacity: int = 90
    sampling_rate: float = 40 / 1437
    adjacency: str = "add or remove one"
    unit: str = "one image"
    epsilon: float = 100.0
    delta: float = 1e-5
    mechanisms: tuple[str, ...] = ("counting",)
    parameter_schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    max_samples: int = 1000
    policy: tuple[tuple[str, str], ...] = (("min_noise_multiplier", "0.5"),)


@dataclass
class Account:
    """One run in the ledger."""

    num_steps: int
    used: int = 0
    closed: bool = False


def templates(dataset: FakeDataset) -> Tensor:
    """Return a fixed image per class in [-.8, .8], [K, C, H, W]."""
    randomness = torch.Generator().manual_seed(17)
    shape = (len(dataset.classes), dataset.channels, dataset.height, dataset.width)
    return torch.rand(shape, generator=randomness) * 1.6 - 0.8


def make_error(kind: type[ErrorT]) -> ErrorT:
    """Return an error as the client would raise it, with words of this test."""
    if issubclass(kind, RequestRefused):
        return kind("TEST", "no answer", remedy="wait")
    return kind("no answer", "wait")


def budget_exhausted(budget: Budget, num_steps: int) -> BudgetExhausted:
    """Return the refusal that a curator with this budget gives."""
    numbers = BudgetNumbers(
        budget=budget.epsilon,
        spent=budget.spent,
        reserved=budget.reserved,
        asked=budget.reserved + num_steps,
        remaining=budget.remaining,
        delta=budget.delta,
    )
    reason = "PRIVACY_BUDGET_EXHAUSTED"
    return BudgetExhausted(reason, "too much", remedy="ask for less", numbers=numbers)


class FakeBarrier:
    """A `Curator`."""

    def __init__(self, dataset: FakeDataset | None = None, *, noise_std: float = 0.1) -> None:
        self.dataset = dataset or FakeDataset()
        self.noise_std = noise_std
        self.share: Share | None = None
        self.accounts: dict[str, Account] = {}
        self.opened: list[tuple[str, dict[str, Any], int]] = []
        self.asked: list[tuple[int, str]] = []
        self.before_gradient: Callable[[FakeRun], None] = lambda run: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def datasets(self) -> list[FakeDataset]:
        return [self.dataset]

    def describe(self, dataset: str) -> FakeDataset:
        return self.dataset

    def budget(self, dataset: str) -> Budget:
        spent = sum(account.used for account in self.accounts.values())
        reserved = sum(a.used if a.closed else a.num_steps for a in self.accounts.values())
        facts = self.dataset
        return Budget(
            dataset=facts.name,
            epsilon=facts.epsilon,
            registered_epsilon=facts.epsilon,
            delta=facts.delta,
            spent=float(spent),
            reserved=float(reserved),
            remaining=facts.epsilon - reserved,
            adjacency=facts.adjacency,
            unit=facts.unit,
            accountant="counting",
            status="active",
            share=self.share,
        )

    def runs(self, *, open_only: bool = False) -> RunList:
        summaries = [
            RunSummary(
                run_id=run_id,
                is_open=not account.closed,
                num_steps=account.num_steps,
                used_steps=account.used,
                dataset="digits",
                analyst="alice",
                mechanism="counting",
                opened_at=_OPENED,
                close_reason="closed by the analyst" if account.closed else "",
                closed_at=_OPENED if account.closed else "",
            )
            for run_id, account in reversed(self.accounts.items())
            if not (open_only and account.closed)
        ]
        return RunList(runs=tuple(summaries), num_left_out=0)

    def plan(
        self,
        dataset: str,
        mechanism: str,
        parameters: dict[str, Any],
        *,
        num_steps: int | None = None,
        epsilon: float | None = None,
    ) -> Plan:
        budget = self.budget(dataset)
        affordable = int(budget.remaining)
        steps = num_steps if num_steps is not None else affordable
        if epsilon is not None:
            steps = int(epsilon)
        return Plan(
            num_steps=steps,
            affordable_steps=affordable,
            epsilon_after=budget.reserved + steps,
            epsilon_alone=float(steps),
            remaining=budget.remaining,
            budget=budget,
            fits=steps <= affordable,
            noise_multiplier=1.0,
        )

    def plan_range(
        self, dataset: str, mechanism: str, parameters: dict[str, Any], question: PlanQuestion
    ) -> Plan:
        num_steps, epsilon = question.num_steps, question.epsilon
        both = num_steps is not None and epsilon is not None
        plan = self.plan(
            dataset, mechanism, parameters, num_steps=num_steps, epsilon=None if both else epsilon
        )
        noise = num_steps / epsilon if num_steps is not None and epsilon is not None else 1.0
        counts = range(1, 1 + min(question.points, max(1, plan.affordable_steps)))
        return replace(
            plan,
            epsilon_alone=plan.epsilon_alone if question.alone else 0.0,
            noise_multiplier=noise,
            points=tuple(
                PlanPoint(
                    noise_multiplier=noise,
                    num_steps=count,
                    epsilon_after=plan.epsilon_after - plan.num_steps + count,
                    fits=count <= plan.affordable_steps,
                )
                for count in counts
            ),
            advice=() if plan.fits else ("it would be refused",),
        )

    def open_run(
        self,
        dataset: str,
        mechanism: str,
        parameters: dict[str, Any],
        *,
        num_steps: int,
        idempotency_key: str | None = None,
    ) -> FakeRun:
        budget = self.budget(dataset)
        if num_steps > budget.remaining:
            raise budget_exhausted(budget, num_steps)
        self.opened.append((mechanism, parameters, num_steps))
        run_id = f"run-{len(self.accounts)}"
        self.accounts[run_id] = Account(num_steps)
        return FakeRun(self, run_id)

    def resume_run(self, run_id: str) -> FakeRun:
        return FakeRun(self, run_id)


@dataclass
class FakeRun:
    """A handle on an account; `next_step` comes from the ledger when the handle is made."""

    barrier: FakeBarrier
    run_id: str
    next_step: int = field(init=False)

    def __post_init__(self) -> None:
        self.next_step = self.account.used + 1

    @property
    def account(self) -> Account:
        return self.barrier.accounts[self.run_id]

    @property
    def num_steps(self) -> int:
        return self.account.num_steps

    @property
    def spent_epsilon(self) -> float:
        return self.barrier.budget("").spent

    @property
    def budget_epsilon(self) -> float:
        return self.barrier.dataset.epsilon

    @property
    def budget(self) -> Budget:
        return self.barrier.budget("")

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        self.barrier.before_gradient(self)
        digest = hashlib.sha256(images.numpy().tobytes()).hexdigest()
        self.barrier.asked.append((self.next_step, digest))
        randomness = torch.Generator().manual_seed(self.next_step)
        noise = torch.randn(images.shape, generator=randomness) * self.barrier.noise_std
        gradient = images - templates(self.barrier.dataset)[labels] + noise
        self.account.used = max(self.account.used, self.next_step)
        self.next_step += 1
        return gradient

    def feature_gradient(self, features: Tensor, weights: bytes) -> Tensor:
        """Pull features to those of this curator: its noise level, the same in all of them."""
        self.barrier.before_gradient(self)
        self.barrier.asked.append((self.next_step, hashlib.sha256(weights).hexdigest()))
        self.account.used = max(self.account.used, self.next_step)
        self.next_step += 1
        return features - self.barrier.noise_std

    def votes(self, images: Tensor, labels: Tensor, num_candidates: int) -> Tensor:
        """Vote for candidates by how near they are to their templates."""
        gradient = self.gradient(images, labels)
        far = gradient.square().sum(dim=(1, 2, 3)).reshape(num_candidates, -1).mean(dim=1)
        return 10 * (-far / far.mean()).exp()

    def go_back(self, step: int) -> None:
        self.next_step = min(step, self.next_step)

    def first_gradient(self, batches: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Count all of them as charged when they are sent; answers depend on the step alone."""
        last = self.next_step + len(batches) - 1
        assert last <= self.num_steps
        answer = self.gradient(*batches[0])
        self.account.used = max(self.account.used, last)
        return answer

    def backward(self, images: Tensor, labels: Tensor) -> None:
        torch.autograd.backward([images], [self.gradient(images.detach(), labels)])

    def close(self) -> None:
        self.account.closed = True
