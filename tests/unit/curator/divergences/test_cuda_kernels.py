"""The fused kernels in Triton's interpreter, and on a card where there is one.

    make kernels

Without Triton (`pip install triton`) everything here is skipped; in the interpreter the tensors are
on the processor, so the arithmetic is checked and not what a compiler makes of it.
"""

from __future__ import annotations

import os

import pytest
import torch

from curator.divergences.agreement import all_gradients
from curator.divergences.cost import LabelledCost, WeightedPoints, uniform_points
from curator.divergences.schedule import Schedule, published
from curator.divergences.sinkhorn import DenseSinkhorn, masked_points

pytest.importorskip("triton", reason="Triton is not installed")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("neither a graphics card nor TRITON_INTERPRET=1", allow_module_level=True)

from curator.divergences.cuda_sinkhorn import FusedSinkhorn  # noqa: E402 - it needs Triton

DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
ALTERNATING = Schedule(temperatures=(4.0, 2.0, 1.0) + (1.0,) * 5, relaxations=(1.6,) * 8)
MIXED = Schedule(temperatures=(4.0, 2.0, 1.0, 1.0, 1.0), relaxations=(None, None, 1.6, 1.6, 1.0))


def clouds(
    rows: int, kept: int, dtype: torch.dtype, device: torch.device
) -> tuple[WeightedPoints, WeightedPoints]:
    generator = torch.Generator().manual_seed(rows + kept)
    images = torch.rand((rows + 21, 70), generator=generator, dtype=torch.float64) * 2 - 1
    images[:, :20] = -1.0  # pixels that are equal in all images
    labels = torch.randint(0, 4, (rows + 21,), generator=generator)
    half = rows // 2  # of the first cloud are neighbours of the others: its self term is not zero
    images[half : 2 * half, 20:] = images[:half, 20:] + 1e-3 * images[half : 2 * half, 20:]
    labels[half : 2 * half] = labels[:half]
    images = images.float().to(device, dtype)  # the same points in both precisions
    labels, mask = labels.to(device), (torch.arange(21) < kept).to(device)
    first = uniform_points(images[:rows], labels[:rows])
    return first, masked_points(images[rows:], labels[rows:], mask)


@pytest.mark.parametrize("kept", [0, 1, 21])
@pytest.mark.parametrize("l1_weight", [0.0, 3.0])
@pytest.mark.parametrize("schedule", [published(9.0, 0.05), ALTERNATING, MIXED])
def test_all_gradients_are_those_of_float64(
    kept: int, l1_weight: float, schedule: Schedule
) -> None:
    """In units of the largest gradient: one that is zero has no relative error."""
    cost = LabelledCost(l1_weight=l1_weight, label_scale=3.0)
    plain = DenseSinkhorn(cost=cost, schedule=schedule)
    exact = all_gradients(plain, clouds(18, kept, torch.float64, torch.device("cpu")))
    solver = FusedSinkhorn(cost, schedule, DEVICE)
    found = all_gradients(solver, clouds(18, kept, torch.float32, DEVICE))
    scale = max(float(one.norm()) for one in exact)
    for got, wanted in zip(found, exact, strict=True):
        assert float((got.cpu().double() - wanted).norm()) < 1e-3 * scale


def test_padding_changes_nothing() -> None:
    solver = FusedSinkhorn(
        LabelledCost(l1_weight=1.0, label_scale=3.0), published(9.0, 0.5), DEVICE
    )
    first, second = clouds(9, 5, torch.float32, DEVICE)
    is_real = torch.arange(21, device=DEVICE).unsqueeze(1) < 5
    other = WeightedPoints(
        images_ND=torch.where(is_real, second.images_ND, 0.9),
        labels_N=second.labels_N,
        log_weights_N=second.log_weights_N,
    )
    a, b = solver.first_gradient(first, second), solver.first_gradient(first, other)
    assert float((a - b).abs().max()) < 1e-6 * float(a.abs().max())


def test_sizes_that_do_not_fit_are_plain_torch_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curator.divergences.cuda_sinkhorn.MAX_ENTRIES", 16)
    cost, schedule = LabelledCost(l1_weight=1.0, label_scale=3.0), published(9.0, 0.5)
    given = clouds(9, 5, torch.float32, DEVICE)
    plain = DenseSinkhorn(cost=cost, schedule=schedule)
    solver = FusedSinkhorn(cost, schedule, DEVICE)
    assert torch.equal(solver.first_gradient(*given), plain.first_gradient(*given))
    for got, wanted in zip(
        solver.both_gradients(*given), plain.both_gradients(*given), strict=True
    ):
        assert torch.equal(got, wanted)
