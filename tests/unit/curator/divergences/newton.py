"""A test-side transport solver of another kind: damped Newton on the dual of both potentials."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from curator.divergences.cost import LabelledCost, WeightedPoints
from curator.divergences.schedule import Schedule
from curator.divergences.sinkhorn import anneal


@dataclass(frozen=True, kw_only=True)
class NewtonTransport:
    """Solves to machine precision; a start near the optimum only saves steps."""

    cost: LabelledCost
    reg: float

    def first_gradient(self, first: WeightedPoints, second: WeightedPoints) -> Tensor:
        return self.both_gradients(first, second)[0]

    def both_gradients(
        self, first: WeightedPoints, second: WeightedPoints
    ) -> tuple[Tensor, Tensor]:
        plan = self._plan(first, second)
        u, v = first.images_ND, second.images_ND
        return self.cost.gradient(plan, u, v), self.cost.gradient(plan.T, v, u)

    def self_gradient(self, points: WeightedPoints) -> Tensor:
        first_rows, second_rows = self.both_gradients(points, points)
        return first_rows + second_rows

    def _plan(self, first: WeightedPoints, second: WeightedPoints) -> Tensor:
        log_a, log_b = first.log_weights_N, second.log_weights_N
        cost = self.cost.matrix(first, second)
        start = anneal(cost, log_a, log_b, _updates_alone(self.reg))
        size = log_a.shape[0]
        weights = torch.cat((log_a.exp(), log_b.exp()))
        potentials = torch.cat((start.first_N, start.second_M))

        def plan_of(duals: Tensor) -> Tensor:
            exponents = (duals[:size].unsqueeze(1) + duals[size:] - cost) / self.reg
            return (log_a.unsqueeze(1) + log_b + exponents).exp()

        def dual(duals: Tensor) -> Tensor:
            return weights @ duals - self.reg * plan_of(duals).sum()

        for _ in range(60):
            plan = plan_of(potentials)
            sums = torch.cat((plan.sum(1), plan.sum(0)))
            if float((weights - sums).abs().max()) < 1e-14:
                break
            hessian = torch.diag(sums)
            hessian[:size, size:] = plan
            hessian[size:, :size] = plan.T
            ridge = 1e-15 * torch.eye(len(sums), dtype=sums.dtype)
            step = self.reg * torch.linalg.solve(hessian + ridge, weights - sums)
            length = 1.0
            while not dual(potentials + length * step) >= dual(potentials) and length > 1e-9:
                length /= 2
            potentials = potentials + length * step
        return plan_of(potentials)


def _updates_alone(reg: float) -> Schedule:
    """Return a slow list without Newton steps, so that nothing of the product's own is used."""
    cooling = tuple(30.0 * 0.97**k for k in range(1000) if 30.0 * 0.97**k > reg)
    temperatures = (*cooling, *(reg,) * 420)
    relaxations = (1.6,) * (len(cooling) + 400) + (1.0,) * 20
    return Schedule(temperatures=temperatures, relaxations=relaxations)
