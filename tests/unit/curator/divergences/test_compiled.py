"""The compiled body does the same updates as plain torch, and its choice is checked."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from curator.divergences import backend
from curator.divergences.agreement import all_gradients
from curator.divergences.backend import Backend, BackendUnavailable, choose_backend, dense_solver
from curator.divergences.cost import LabelledCost, WeightedPoints, uniform_points
from curator.divergences.schedule import Schedule, published
from curator.divergences.sinkhorn import DenseSinkhorn, masked_points

pytest.importorskip("numba", reason="numba is not installed")

from numba import njit

from curator.divergences import kernels
from curator.divergences.compiled import CompiledSinkhorn

COST = LabelledCost(l1_weight=1.0, label_scale=3.0)


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_chosen", {})


def clouds(rows: int, kept: int, dtype: torch.dtype) -> tuple[WeightedPoints, WeightedPoints]:
    """Return points of which half are neighbours of the others, so that a self term is not zero."""
    generator = torch.Generator().manual_seed(rows + kept)
    images = torch.rand((rows + 12, 50), generator=generator, dtype=torch.float64) * 2 - 1
    labels = torch.randint(0, 4, (rows + 12,), generator=generator)
    half = rows // 2
    images[half : 2 * half] = images[:half] + 2e-3 * images[half : 2 * half]
    labels[half : 2 * half] = labels[:half]
    images = images.float()  # the same points in both precisions
    first = uniform_points(images[:rows].to(dtype), labels[:rows])
    mask = torch.arange(12) < kept
    return first, masked_points(images[rows:].to(dtype), labels[rows:], mask)


def assert_close(got: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> None:
    """Compare in units of the largest gradient: one that is zero has no relative error."""
    scale = max(float(one.norm()) for one in exact)
    for one, other in zip(got, exact, strict=True):
        assert float((one.double() - other).norm()) < 1e-3 * scale


@pytest.mark.parametrize("rows", [1, 6, 9, 17])
@pytest.mark.parametrize("kept", [1, 7, 12])
@pytest.mark.parametrize("l1_weight", [0.0, 1.0])
@pytest.mark.parametrize(
    "schedule",
    [
        published(9.0, 0.05),
        Schedule(temperatures=(4.0, 2.0, 1.0) + (1.0,) * 9, relaxations=(1.6,) * 12),
    ],
)
def test_all_gradients_are_those_of_float64(
    rows: int, kept: int, l1_weight: float, schedule: Schedule
) -> None:
    cost = LabelledCost(l1_weight=l1_weight, label_scale=3.0)
    exact = all_gradients(
        DenseSinkhorn(cost=cost, schedule=schedule), clouds(rows, kept, torch.float64)
    )
    solver = CompiledSinkhorn(cost=cost, schedule=schedule)
    assert_close(all_gradients(solver, clouds(rows, kept, torch.float32)), exact)
    if rows > 1 and l1_weight:
        assert float(exact[-1].norm()) > 0.05 * float(exact[0].norm())


def test_padding_changes_nothing() -> None:
    solver = CompiledSinkhorn(cost=COST, schedule=published(9.0, 0.5))
    first, second = clouds(9, 5, torch.float32)
    other = WeightedPoints(
        images_ND=torch.where(torch.arange(12).unsqueeze(1) < 5, second.images_ND, 0.9),
        labels_N=second.labels_N,
        log_weights_N=second.log_weights_N,
    )
    a, b = solver.first_gradient(first, second), solver.first_gradient(first, other)
    assert float((a - b).abs().max()) < 1e-6 * float(a.abs().max())


def test_equal_pixels_have_no_sign() -> None:
    plan = np.ones((3, 2), np.float32)
    u = np.array([[0.5, -1.0], [0.25, 1.0]], np.float32)
    v = np.array([[0.5, 1.0], [0.5, 1.0], [0.0, -1.0]], np.float32)
    out = np.zeros_like(u)
    kernels.add_sign_sums(plan, np.float32(1), u, v, out)
    assert out.tolist() == [[1.0, -2.0], [-1.0, 1.0]]


@pytest.mark.parametrize("columns", [1, 3, 7, 8, 9, 17])
def test_sums_of_signs_are_exact_however_many_points_are_left(columns: int) -> None:
    generator = np.random.default_rng(columns)
    plan = generator.integers(1, 100, (columns, 3)).astype(np.float32) / 128
    u = generator.integers(-2, 3, (3, 20)).astype(np.float32) / 255
    v = generator.integers(-2, 3, (columns, 20)).astype(np.float32) / 255
    u[0], v[0] = u[0] * 1e-27, v[0] * 1e-27
    out = np.ones_like(u)
    kernels.add_sign_sums(plan, np.float32(2), u, v, out)
    signs = np.sign(u[:, None] - v)
    assert np.array_equal(out, 1 + 2 * (plan.T[:, :, None] * signs).sum(1))


def test_the_exponential_is_exact_to_float32() -> None:
    arguments = np.linspace(-80, 0, 20_001).astype(np.float32)
    got = np.array([kernels.exp32(x) for x in arguments])
    exact = np.exp(arguments.astype(np.float64))
    assert np.abs(got / exact - 1).max() < 3e-7


@pytest.mark.parametrize("name", ["softmin", "pair_costs", "add_sign_sums", "column_plan"])
def test_inner_loops_are_vector_code_without_calls(name: str) -> None:
    """A library's exponential in the loop would tell its argument by its time."""
    f32, f = np.zeros((3, 3), np.float32), np.zeros(3, np.float32)
    i = np.zeros(3, np.int64)
    arguments: dict[str, tuple[Any, ...]] = {
        "softmin": (f32, f, np.float32(1), f.copy(), f.copy()),
        "pair_costs": (f32, f32, i, i, f32[0, 0], f32[0, 0], True, f32, f32),
        "add_sign_sums": (f32, np.float32(1), f32, f32, f32.copy()),
        "column_plan": (f32, f, np.float32(1), f, f32.copy()),
    }
    function = getattr(kernels, name).py_func
    kernel = njit(fastmath=kernels._FAST, error_model="numpy")(function)  # cached code has no text
    kernel(*arguments[name])
    assembly = next(iter(kernel.inspect_asm().values()))
    assert "expf" not in assembly
    assert "xmm" in assembly or "ymm" in assembly or "zmm" in assembly or "v0" in assembly


def test_what_is_asked_for_is_taken() -> None:
    assert choose_backend(Backend.TORCH).body is Backend.TORCH
    schedule = published(9.0, 0.5)
    assert isinstance(dense_solver(COST, schedule, torch.float32), DenseSinkhorn)
    assert choose_backend(Backend.NUMBA).body is Backend.NUMBA
    assert isinstance(dense_solver(COST, schedule, torch.float32), CompiledSinkhorn)
    assert isinstance(dense_solver(COST, schedule, torch.float64), DenseSinkhorn)
    assert choose_backend(Backend.AUTO).body is Backend.NUMBA


def test_a_body_that_disagrees_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong(cost: LabelledCost, schedule: Schedule) -> DenseSinkhorn:
        return DenseSinkhorn(
            cost=LabelledCost(l1_weight=cost.l1_weight * 1.01, label_scale=cost.label_scale),
            schedule=schedule,
        )

    monkeypatch.setattr(backend, "_compiled", wrong)
    with caplog.at_level(logging.WARNING, logger="curator"):
        choice = choose_backend(Backend.AUTO)
    assert choice.body is Backend.TORCH
    assert choice.refusal is not None
    assert f"differ from float64 by {choice.refusal.error:.1e}" in choice.reason
    assert choice.reason in caplog.text
    assert choice.reason in choice.words
    with pytest.raises(BackendUnavailable, match="differ from float64"):
        choose_backend(Backend.NUMBA)


def test_a_body_that_cannot_be_compiled_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: LabelledCost, __: Schedule) -> DenseSinkhorn:
        raise OSError

    monkeypatch.setattr(backend, "_compiled", broken)
    assert choose_backend(Backend.AUTO).body is Backend.TORCH
    with pytest.raises(BackendUnavailable, match="could not be compiled"):
        choose_backend(Backend.NUMBA)


def test_without_numba_there_is_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "find_spec", lambda _: None)
    assert choose_backend(Backend.AUTO).body is Backend.TORCH
    with pytest.raises(BackendUnavailable, match="not installed"):
        choose_backend(Backend.NUMBA)


def test_no_weight_is_lost() -> None:
    """Column sums of the plan are the second cloud's weights."""
    generator = np.random.default_rng(1)
    cost = generator.random((5, 7), dtype=np.float32) * 20
    weights = np.full(7, -math.log(7), np.float32)
    plan = np.empty_like(cost)
    kernels.column_plan(cost, np.zeros(5, np.float32), np.float32(0.5), weights, plan)
    assert np.abs(plan.sum(0) * 7 - 1).max() < 1e-5
