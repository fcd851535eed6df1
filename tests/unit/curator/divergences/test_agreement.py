"""The check of a body: its problems are well conditioned, and every real fault is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from curator.divergences import backend
from curator.divergences.agreement import PROBLEMS, CheckProblem, all_gradients, disagreement
from curator.divergences.backend import Backend, check_body
from curator.divergences.cost import LabelledCost, WeightedPoints
from curator.divergences.schedule import Schedule
from curator.divergences.sinkhorn import DenseSinkhorn, TransportSolver

CPU = torch.device("cpu")
Body = Callable[[LabelledCost, Schedule], TransportSolver]
each_problem = pytest.mark.parametrize(
    "problem", PROBLEMS, ids=["small", "alternating", "published"]
)


def plain(cost: LabelledCost, schedule: Schedule) -> DenseSinkhorn:
    return DenseSinkhorn(cost=cost, schedule=schedule)


class SignTurned(LabelledCost):
    """Differentiates the L1 term with the wrong sign."""

    def gradient(self, plan_NM: Tensor, first_ND: Tensor, second_MD: Tensor) -> Tensor:
        whole = LabelledCost.gradient(self, plan_NM, first_ND, second_MD)
        squares = LabelledCost(l1_weight=0.0, label_scale=self.label_scale)
        return 2 * squares.gradient(plan_NM, first_ND, second_MD) - whole


def wrong_sign(cost: LabelledCost, schedule: Schedule) -> TransportSolver:
    turned = SignTurned(l1_weight=cost.l1_weight, label_scale=cost.label_scale)
    return plain(turned, schedule)


def no_label_term(cost: LabelledCost, schedule: Schedule) -> TransportSolver:
    return plain(LabelledCost(l1_weight=cost.l1_weight, label_scale=0.0), schedule)


def one_update_too_few(cost: LabelledCost, schedule: Schedule) -> TransportSolver:
    """Without the one before the last, so that the regularisation stays."""
    kept = [k for k in range(len(schedule.temperatures)) if k != len(schedule.temperatures) - 2]
    shorter = Schedule(
        temperatures=tuple(schedule.temperatures[k] for k in kept),
        relaxations=tuple(schedule.relaxations[k] for k in kept),
    )
    return plain(cost, shorter)


@dataclass(frozen=True)
class PaddingCounts:
    """Gives mass to padding: to all of it, or to its first row."""

    right: DenseSinkhorn
    num_rows: int | None = None

    def _wrong(self, points: WeightedPoints) -> WeightedPoints:
        kept = points.log_weights_N.isfinite().cumsum(0) == points.log_weights_N.isfinite().sum()
        padded = kept & ~points.log_weights_N.isfinite()
        chosen = padded & (padded.cumsum(0) <= (self.num_rows or len(padded)))
        weights = torch.where(chosen, points.log_weights_N[0], points.log_weights_N)
        return WeightedPoints(
            images_ND=points.images_ND,
            labels_N=points.labels_N,
            log_weights_N=weights - weights.exp().sum().log(),
        )

    def first_gradient(self, first: WeightedPoints, second: WeightedPoints) -> Tensor:
        return self.right.first_gradient(first, self._wrong(second))

    def both_gradients(
        self, first: WeightedPoints, second: WeightedPoints
    ) -> tuple[Tensor, Tensor]:
        return self.right.both_gradients(first, self._wrong(second))

    def self_gradient(self, points: WeightedPoints) -> Tensor:
        return self.right.self_gradient(points)


@dataclass(frozen=True)
class Partly:
    """A body that is wrong in one of its gradients alone: 0 and 1 of both clouds, 2 the self term,
    3 the first cloud's alone.
    """

    right: TransportSolver
    wrong: TransportSolver
    part: int

    def _of(self, part: int) -> TransportSolver:
        return self.wrong if part == self.part else self.right

    def first_gradient(self, first: WeightedPoints, second: WeightedPoints) -> Tensor:
        return self._of(3).first_gradient(first, second)

    def both_gradients(
        self, first: WeightedPoints, second: WeightedPoints
    ) -> tuple[Tensor, Tensor]:
        rows, _ = self._of(0).both_gradients(first, second)
        _, columns = self._of(1).both_gradients(first, second)
        return rows, columns

    def self_gradient(self, points: WeightedPoints) -> Tensor:
        return self._of(2).self_gradient(points)


FAULTS: dict[str, Body] = {
    "wrong sign": wrong_sign,
    "no label term": no_label_term,
    "one update too few": one_update_too_few,
    "an L1 weight of 1.01": lambda cost, schedule: plain(
        LabelledCost(l1_weight=1.01 * cost.l1_weight, label_scale=cost.label_scale), schedule
    ),
}
PADDING: dict[str, Body] = {
    "padding counts": lambda cost, schedule: PaddingCounts(plain(cost, schedule)),
    "one row of padding counts": lambda cost, schedule: PaddingCounts(plain(cost, schedule), 1),
}


def verdict_of(body: Body, monkeypatch: pytest.MonkeyPatch) -> backend.Verdict:
    monkeypatch.setattr(backend, "find_spec", lambda _: object())
    monkeypatch.setattr(backend, "_compiled", body)
    return check_body(Backend.NUMBA)


@each_problem
def test_no_gradient_of_a_problem_is_small(problem: CheckProblem) -> None:
    """Against float64, in which all of them are known to ten digits."""
    exact = all_gradients(plain(problem.cost, problem.schedule), problem.clouds(torch.float64, CPU))
    lengths = [float(one.norm()) for one in exact]
    assert len(lengths) == 4
    assert min(lengths) > 0.1 * max(lengths)


@each_problem
def test_float32_holds_the_points_of_a_problem_exactly(problem: CheckProblem) -> None:
    wide, narrow = problem.clouds(torch.float64, CPU), problem.clouds(torch.float32, CPU)
    for one, other in zip(wide, narrow, strict=True):
        assert torch.equal(one.images_ND, other.images_ND.double())
        assert one.images_ND.abs().max() <= 1
        assert len(set(map(tuple, one.images_ND.tolist()))) == len(one.images_ND)
    assert int(wide[1].log_weights_N.isfinite().sum()) == problem.num_kept < problem.num_second


@each_problem
def test_single_precision_is_well_within_the_tolerance(problem: CheckProblem) -> None:
    assert disagreement(plain(problem.cost, problem.schedule), problem, CPU) > 0
    assert disagreement(plain(problem.cost, problem.schedule), problem, CPU) < problem.tolerance / 3


@each_problem
def test_a_self_term_of_zero_is_no_fault(problem: CheckProblem) -> None:
    """Points so far apart that each stays where it is: rounding decides all digits of that zero."""
    apart = replace(problem, num_clusters=problem.num_first, spread=1.0)
    solver = plain(apart.cost, apart.schedule)
    exact = all_gradients(solver, apart.clouds(torch.float64, CPU))
    assert float(exact[-1].norm()) < 1e-9 * float(exact[0].norm())
    assert disagreement(solver, apart, CPU) < apart.tolerance


def test_a_right_body_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = verdict_of(plain, monkeypatch)
    assert verdict.reason == ""
    assert verdict.error is not None
    assert verdict.allowed is not None
    assert 0 < verdict.error < verdict.allowed


@pytest.mark.parametrize("fault", [*FAULTS, *PADDING])
def test_a_faulty_body_is_refused(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = verdict_of({**FAULTS, **PADDING}[fault], monkeypatch)
    assert "differ from float64" in verdict.reason
    assert verdict.error is not None
    assert f"{verdict.error:.1e}" in verdict.reason


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_gradient_alone_is_refused(
    fault: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def body(cost: LabelledCost, schedule: Schedule) -> Any:
        return Partly(plain(cost, schedule), FAULTS[fault](cost, schedule), part)

    assert "differ from float64" in verdict_of(body, monkeypatch).reason


def test_a_body_without_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(cost: LabelledCost, schedule: Schedule) -> TransportSolver:
        return plain(LabelledCost(l1_weight=torch.nan, label_scale=cost.label_scale), schedule)

    verdict = verdict_of(silent, monkeypatch)
    assert (verdict.error, verdict.reason) == (None, "its gradients are not numbers")
