"""Gradients against values computed independently, kept outside the repository.

The folder is found through WEIR_REFERENCE or beside the repository; its README states the
tolerances used here.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.divergences.cost import LabelledCost, uniform_points
from curator.divergences.schedule import Schedule, converged, published
from curator.divergences.sinkhorn import (
    DenseSinkhorn,
    TransportSolver,
    masked_points,
    private_half,
    public_half,
)
from tests.unit.curator.divergences.newton import NewtonTransport

ROOT = Path(__file__).resolve().parents[4]
REFERENCE = Path(os.environ.get("WEIR_REFERENCE", str(ROOT.parent / "shared" / "reference")))
TINY, LARGE = "sinkhorn_gradient_tiny.json", "sinkhorn_gradient_784"

pytestmark = [
    pytest.mark.golden,
    pytest.mark.skipif(
        not (REFERENCE / TINY).exists(),
        reason="reference values not found: set WEIR_REFERENCE to their folder",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Problem:
    images: Tensor
    labels: Tensor
    private_images: Tensor
    private_labels: Tensor
    num_samples: int
    cost: LabelledCost

    def scheduled(self, for_records: Schedule, for_self: Schedule, dtype: torch.dtype) -> Tensor:
        return self.gradient(
            DenseSinkhorn(cost=self.cost, schedule=for_records),
            DenseSinkhorn(cost=self.cost, schedule=for_self),
            dtype,
        )

    def optimum(self, reg: float) -> Tensor:
        solver = NewtonTransport(cost=self.cost, reg=reg)
        return self.gradient(solver, solver, torch.float64)

    def gradient(
        self, with_records: TransportSolver, with_itself: TransportSolver, dtype: torch.dtype
    ) -> Tensor:
        images, private_images = self.images.to(dtype), self.private_images.to(dtype)
        mask = torch.ones(private_images.shape[0], dtype=torch.bool)
        rows = public_half(with_itself, images, self.labels, self.num_samples)
        rows[: self.num_samples] += private_half(
            with_records,
            uniform_points(images[: self.num_samples], self.labels[: self.num_samples]),
            masked_points(private_images, self.private_labels, mask),
            mask,
        )
        return rows.to(torch.float64)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).norm() / expected.norm())


def tiny_rows() -> list[dict[str, Any]]:
    if not (REFERENCE / TINY).exists():
        return []
    return list(json.loads((REFERENCE / TINY).read_text())["rows"])


def large_keys(prefix: str) -> list[str]:
    if not (REFERENCE / f"{LARGE}.npz").exists():
        return []
    with np.load(REFERENCE / f"{LARGE}.npz") as arrays:
        return [key for key in arrays.files if key.startswith(prefix)]


def float64(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def tiny_problem(row: dict[str, Any]) -> Problem:
    return Problem(
        images=float64(row["X"]),
        labels=torch.tensor(row["lx"]),
        private_images=float64(row["Y"]),
        private_labels=torch.tensor(row["ly"]),
        num_samples=row["n"],
        cost=LabelledCost(l1_weight=row["mix"], label_scale=row["alpha"]),
    )


def large_problem(key: str) -> tuple[Problem, Tensor, float, dict[str, Any]]:
    _, mix, lam = key.split("_")
    facts = json.loads((REFERENCE / f"{LARGE}.json").read_text())[f"synth784/{mix}_{lam}"]
    with np.load(REFERENCE / f"{LARGE}.npz") as arrays:
        problem = Problem(
            images=torch.from_numpy(arrays["X"]),
            labels=torch.from_numpy(arrays["lx"]),
            private_images=torch.from_numpy(arrays["Y"]),
            private_labels=torch.from_numpy(arrays["ly"]),
            num_samples=50,
            cost=LabelledCost(l1_weight=float(mix.removeprefix("mix")), label_scale=15.0),
        )
        expected = torch.from_numpy(arrays[key])
    return problem, expected, float(lam.removeprefix("lam")), facts


def published_pair(facts: dict[str, Any], reg: float) -> tuple[Schedule, Schedule]:
    pair = []
    for num_entries, diameter in facts["schedule"]:
        schedule = published(diameter, reg)
        assert len(schedule.temperatures) == num_entries
        pair.append(schedule)
    return pair[0], pair[1]


@pytest.mark.parametrize(
    "row", tiny_rows(), ids=lambda row: f"{row['name']}-{row['mix']}-{row['lam']}"
)
def test_tiny_published(row: dict[str, Any]) -> None:
    facts = row["geomloss_p1_s05"]
    actual = tiny_problem(row).scheduled(*published_pair(facts, row["lam"]), torch.float64)
    assert relative_error(actual, float64(facts["grad"])) < 1e-9


@pytest.mark.parametrize(
    "row", tiny_rows(), ids=lambda row: f"{row['name']}-{row['mix']}-{row['lam']}"
)
def test_tiny_optimum(row: dict[str, Any]) -> None:
    actual = tiny_problem(row).optimum(row["lam"])
    assert relative_error(actual, float64(row["grad"])) < 1e-6


@pytest.mark.parametrize("key", large_keys("geomgrad"))
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-9), (torch.float32, 1e-3)])
def test_large_published(key: str, dtype: torch.dtype, bound: float) -> None:
    problem, expected, reg, facts = large_problem(key)
    actual = problem.scheduled(*published_pair(facts["geomloss_p1_s05"], reg), dtype)
    assert relative_error(actual, expected) < bound


@pytest.mark.parametrize("key", large_keys("grad"))
def test_large_converged(key: str) -> None:
    problem, expected, reg, _ = large_problem(key)
    schedule = converged(73.4, reg)
    bound = 1e-5 if reg >= 0.5 else 1e-3
    assert relative_error(problem.scheduled(schedule, schedule, torch.float64), expected) < bound


@pytest.mark.parametrize("key", large_keys("grad"))
def test_large_optimum(key: str) -> None:
    problem, expected, reg, _ = large_problem(key)
    assert relative_error(problem.optimum(reg), expected) < 1e-6
