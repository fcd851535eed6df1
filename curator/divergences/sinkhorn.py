"""Entropic optimal transport by a fixed number of Sinkhorn updates in the log domain.

The number of updates, every shape and every branch are public: no convergence test, no early
stop, no reading of a tensor's value.

The semi-debiased loss is 2 W(X[0:n], Y) - W(X[0:n], X[n':n'+n]), in two halves: `private_half` is
the only function here that meets private points; `public_half` takes none.

Shape legend: N points of the first cloud, M of the second, D pixels; of the loss N = n + n'
samples and M = capacity (padded private rows).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final

import torch

from curator.divergences.cost import LabelledCost, WeightedPoints, uniform_points
from curator.divergences.newton import newton_steps
from curator.divergences.schedule import Schedule

if TYPE_CHECKING:
    from torch import Tensor

_LOWEST_EXPONENT = -80.0


class TransportSolver(Protocol):
    """Differentiates the entropic transport cost W(first, second) with respect to images."""

    def first_gradient(self, first: WeightedPoints, second: WeightedPoints) -> Tensor:
        """Return dW / d(images of the first cloud), one row per point."""
        ...

    def both_gradients(
        self, first: WeightedPoints, second: WeightedPoints
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients with respect to the images of both clouds."""
        ...

    def self_gradient(self, points: WeightedPoints) -> Tensor:
        """Return dW(points, points) / d(images), through both arguments."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Potentials:
    """Dual potentials of a transport problem, before the last full update."""

    first_N: Tensor
    second_M: Tensor


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DenseSinkhorn:
    """Transport with the whole cost matrix in memory.

    The gradient is the envelope gradient: the last full update fixes the plan, and only the cost
    is differentiated. The first cloud's gradient uses the plan whose rows sum to its weights, the
    second's the plan whose columns sum to its weights; they agree at convergence.

    References:
        [cuturi:13]; [feydy:20], section 3.3.3.
    """

    cost: LabelledCost
    schedule: Schedule

    def first_gradient(self, first: WeightedPoints, second: WeightedPoints) -> Tensor:
        """Return dW / d(images of the first cloud).

        Returns:
            Rows (N, D) in the dtype of the images.
        """
        cost_NM = self.cost.matrix(first, second)
        potentials = anneal(cost_NM, first.log_weights_N, second.log_weights_N, self.schedule)
        return self._first(cost_NM, potentials, first, second)

    def both_gradients(
        self, first: WeightedPoints, second: WeightedPoints
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients with respect to the images of both clouds.

        Returns:
            Rows (N, D) and rows (M, D).
        """
        cost_NM = self.cost.matrix(first, second)
        potentials = anneal(cost_NM, first.log_weights_N, second.log_weights_N, self.schedule)
        exponents_NM = _exponents(cost_NM, potentials.first_N, first.log_weights_N, self.reg)
        plan_NM = _softmax(exponents_NM) * second.log_weights_N.exp()
        second_MD = self.cost.gradient(plan_NM.T, second.images_ND, first.images_ND)
        return self._first(cost_NM, potentials, first, second), second_MD

    def self_gradient(self, points: WeightedPoints) -> Tensor:
        """Return dW(points, points) / d(images), through both arguments.

        Averaged updates treat both clouds alike, so both arguments then contribute the same rows.

        Returns:
            Rows (N, D).
        """
        if self.schedule.is_symmetric:
            return self.first_gradient(points, points) * 2
        first_ND, second_ND = self.both_gradients(points, points)
        return first_ND + second_ND

    @property
    def reg(self) -> float:
        """The entropic regularisation, in cost units."""
        return self.schedule.reg

    def _first(
        self,
        cost_NM: Tensor,
        potentials: Potentials,
        first: WeightedPoints,
        second: WeightedPoints,
    ) -> Tensor:
        """Differentiate through the plan whose rows sum to the first cloud's weights."""
        exponents_MN = _exponents(cost_NM.T, potentials.second_M, second.log_weights_N, self.reg)
        plan_MN = _softmax(exponents_MN) * first.log_weights_N.exp()
        return self.cost.gradient(plan_MN.T, first.images_ND, second.images_ND)


def anneal(
    cost_NM: Tensor, log_weights_N: Tensor, log_weights_M: Tensor, schedule: Schedule
) -> Potentials:
    """Run every update of a schedule, and its Newton steps.

    Args:
        cost_NM: Pairwise costs.
        log_weights_N: Logarithms of the first cloud's weights; -inf is padding.
        log_weights_M: Logarithms of the second cloud's weights; -inf is padding.
        schedule: Temperatures and kinds of updates.

    Returns:
        Potentials ready for the last full update at `schedule.reg`.
    """
    cost_MN = cost_NM.T.contiguous()
    start = schedule.temperatures[0]
    first_N = softmin(cost_MN, torch.zeros_like(log_weights_M), log_weights_M, start)
    second_M = softmin(cost_NM, torch.zeros_like(log_weights_N), log_weights_N, start)
    for reg, relaxation in zip(schedule.temperatures, schedule.relaxations, strict=True):
        target_N = softmin(cost_MN, second_M, log_weights_M, reg)
        if relaxation is None:
            target_M = softmin(cost_NM, first_N, log_weights_N, reg)
            first_N, second_M = (first_N + target_N) / 2, (second_M + target_M) / 2
        else:
            first_N = torch.lerp(first_N, target_N, relaxation)
            target_M = softmin(cost_NM, first_N, log_weights_N, reg)
            second_M = torch.lerp(second_M, target_M, relaxation)
    if schedule.newton_temperatures:
        weights = (log_weights_N, log_weights_M)
        first_N = newton_steps(cost_NM, first_N, weights, schedule.newton_temperatures)
        second_M = softmin(cost_NM, first_N, log_weights_N, schedule.reg)
    return Potentials(first_N=first_N, second_M=second_M)


def transport_cost(
    cost_NM: Tensor, log_weights_N: Tensor, log_weights_M: Tensor, schedule: Schedule
) -> Tensor:
    """Return the dual value of the transport problem after the last full update.

    Args:
        cost_NM: Pairwise costs.
        log_weights_N: Logarithms of the first cloud's weights.
        log_weights_M: Logarithms of the second cloud's weights.
        schedule: Temperatures and kinds of updates.
    """
    before = anneal(cost_NM, log_weights_N, log_weights_M, schedule)
    first_N = softmin(cost_NM.T, before.second_M, log_weights_M, schedule.reg)
    second_M = softmin(cost_NM, before.first_N, log_weights_N, schedule.reg)
    return log_weights_N.exp() @ first_N + log_weights_M.exp() @ second_M


def softmin(cost_NM: Tensor, potential_N: Tensor, log_weights_N: Tensor, reg: float) -> Tensor:
    """Return -reg log sum_i exp(log_weights_i + (potential_i - cost_ij) / reg) for every j.

    Args:
        cost_NM: Costs; the rows are summed over.
        potential_N: Dual potential of the rows.
        log_weights_N: Logarithms of the rows' weights; not all -inf.
        reg: Temperature > 0, in cost units.

    Returns:
        One value per column, finite whatever the padding.
    """
    exponents_NM = _exponents(cost_NM, potential_N, log_weights_N, reg)
    tops_M = exponents_NM.amax(0)
    return (_shifted_exp(exponents_NM, tops_M).sum(0).log() + tops_M) * -reg


def _exponents(cost_NM: Tensor, potential_N: Tensor, log_weights_N: Tensor, reg: float) -> Tensor:
    offsets_N = torch.add(log_weights_N, potential_N, alpha=1 / reg)
    return torch.add(offsets_N.unsqueeze(1), cost_NM, alpha=-1 / reg)


def _softmax(exponents_NM: Tensor) -> Tensor:
    """Return columns of sum one."""
    powers_NM = _shifted_exp(exponents_NM, exponents_NM.amax(0))
    return powers_NM / powers_NM.sum(0)


def _shifted_exp(exponents_NM: Tensor, tops_M: Tensor) -> Tensor:
    """Return exp(exponent - top), not below exp(-80), which is nothing beside the top's 1.

    Libraries compute the exponential of very negative or infinite numbers on another, slower or
    faster, path: without the bound the time would tell how many rows are padding.
    """
    return (exponents_NM - tops_M).clamp_(min=_LOWEST_EXPONENT).exp_()


def masked_points(images_MD: Tensor, labels_M: Tensor, mask_M: Tensor) -> WeightedPoints:
    """Return a cloud that shares the mass among the unmasked rows.

    When no row is left the padding shares it, so that everything stays finite.

    Args:
        images_MD: Private rows padded to the capacity.
        labels_M: Their class indices.
        mask_M: False marks padding.
    """
    kept_M = mask_M.to(images_MD.dtype)
    kept_M = torch.where(kept_M.sum() > 0, kept_M, torch.ones_like(kept_M))
    log_weights_M = kept_M.log() - kept_M.sum().log()
    return WeightedPoints(images_ND=images_MD, labels_N=labels_M, log_weights_N=log_weights_M)


def private_half(
    solver: TransportSolver, samples: WeightedPoints, records: WeightedPoints, mask_M: Tensor
) -> Tensor:
    """Return the gradient of 2 W(X[0:n], Y) with respect to X[0:n].

    Args:
        solver: Fixed-length transport solver.
        samples: The n rows that meet private data.
        records: Private points, padded.
        mask_M: False marks padding.

    Returns:
        Rows (n, D); zero when no record was sampled, by a factor and not by a branch.
    """
    factor = 2 * (mask_M.sum() > 0).to(samples.images_ND.dtype)
    return solver.first_gradient(samples, records) * factor


def public_half(
    solver: TransportSolver, images_ND: Tensor, labels_N: Tensor, num_samples: int
) -> Tensor:
    """Return the gradient of -W(X[0:n], X[n':n'+n]) with respect to all n + n' rows.

    Args:
        solver: Fixed-length transport solver.
        images_ND: All n + n' generated images.
        labels_N: Their class indices.
        num_samples: n; the other n' = N - n rows serve the self term only.

    Returns:
        Rows (N, D); a row on both sides of the self term gets both contributions.
    """
    start = images_ND.shape[0] - num_samples
    if start == 0:
        return solver.self_gradient(uniform_points(images_ND, labels_N)).neg_()
    first = uniform_points(images_ND[:num_samples], labels_N[:num_samples])
    second = uniform_points(images_ND[start:], labels_N[start:])
    first_rows, second_rows = solver.both_gradients(first, second)
    gradient_ND = torch.zeros_like(images_ND)
    gradient_ND[:num_samples] -= first_rows
    gradient_ND[start:] -= second_rows
    return gradient_ND
