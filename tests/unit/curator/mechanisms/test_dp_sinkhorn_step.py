"""Captured steps are the eager ones, on a card or with graphs that are played back by a fake."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

from curator.divergences import cuda_graph, device
from curator.divergences.backend import Backend, choose_backend
from curator.divergences.cost import LabelledCost
from curator.divergences.schedule import published
from curator.divergences.sinkhorn import DenseSinkhorn
from curator.mechanisms import dp_sinkhorn_step
from curator.mechanisms.dp_sinkhorn import DpSinkhorn, DpSinkhornSpec
from curator.mechanisms.dp_sinkhorn_step import CapturedStep, EagerStep, Halves, step_on
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock
from curator.sanitizer.clipped import clipped_to_lattice
from curator.sanitizer.post_process import release_values
from tests.fakes import cuda
from tests.unit.curator.mechanisms.silent import SilentNoise

CLIP, RADIUS = 0.5, 29_000
SPACE = ImageSpace(channels=1, height=2, width=3, max_level=16, num_classes=3)
SPEC: dict[str, Any] = {
    "sampling_rate": 0.1,
    "capacity": 6,
    "num_samples": 4,
    "num_debias": 2,
    "clip_norm": CLIP,
    "noise_multiplier": 1.1,
    "reg": 0.05,
    "l1_weight": 1.0,
    "label_scale": 15.0,
    "schedule": "published",
}
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no graphics card")
    ),
]


@pytest.fixture(params=DEVICES)
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    wanted: str = request.param
    if wanted == "cpu":
        cuda.install(monkeypatch, cuda_graph)
    return wanted


def halves(name: str, num_debias: int = 2) -> Halves:
    cost = LabelledCost(l1_weight=1.0, label_scale=15.0)
    return Halves(
        solver=DenseSinkhorn(cost=cost, schedule=published(9.0, 0.05)),
        device=torch.device(name),
        dtype=torch.float32,
        num_samples=4,
        num_debias=num_debias,
        capacity=6,
        dimension=6,
        max_level=16,
        clip_norm=CLIP,
        radius=RADIUS,
    )


def samples(num_rows: int, seed: int) -> Samples:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(num_rows, 6, generator=generator) * 2 - 1
    return Samples(images_ND=images, labels_N=(torch.arange(num_rows) + seed) % 3)


def batch(kept: int, seed: int) -> RecordBatch:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(6) < kept
    levels = torch.randint(0, 17, (6, 6), generator=generator) * mask.unsqueeze(1)
    return RecordBatch(
        levels_MD=levels.to(torch.uint8),
        labels_M=torch.randint(0, 3, (6,), generator=generator) * mask,
        mask_M=mask,
        units_M=torch.where(mask, torch.arange(6), -1),
    )


@pytest.mark.parametrize("num_debias", [0, 2, 4])
def test_steps_are_those_of_the_eager_way(name: str, num_debias: int) -> None:
    given = halves(name, num_debias)
    eager, captured = EagerStep(given), CapturedStep(given)
    for turn, kept in enumerate([6, 0, 3, 1]):
        rows, records = samples(4 + num_debias, turn), batch(kept, turn)
        with eager.begun(rows) as one, captured.begun(rows) as other:
            expected = clipped_to_lattice(one.private_rows(records).to("cpu"), CLIP, RADIUS)
            got = other.private_rows(records)
            assert got.dtype is torch.int64
            assert int((got - expected).abs().max()) <= (0 if name == "cpu" else 30)
            public = other.debias_rows()
            assert public.shape == (num_debias, 6)
            assert torch.allclose(public, one.debias_rows().to("cpu"), atol=1e-5)


def test_a_bad_batch_spoils_its_own_step_only(name: str) -> None:
    given = halves(name)
    eager, captured = EagerStep(given), CapturedStep(given)
    short = batch(3, 1)
    wrong = RecordBatch(
        levels_MD=short.levels_MD[:4],
        labels_M=short.labels_M,
        mask_M=short.mask_M,
        units_M=short.units_M,
    )
    with captured.begun(samples(6, 1)) as step, pytest.raises(RuntimeError):
        step.private_rows(wrong)
    with captured.begun(samples(6, 2)) as one, eager.begun(samples(6, 2)) as other:
        expected = clipped_to_lattice(other.private_rows(short).to("cpu"), CLIP, RADIUS)
        assert int((one.private_rows(short) - expected).abs().max()) <= (0 if name == "cpu" else 30)


def test_what_cannot_be_captured_runs_eagerly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Halves) -> CapturedStep:
        raise RuntimeError("no more memory on card 3")

    monkeypatch.setattr(dp_sinkhorn_step, "CapturedStep", broken)
    with caplog.at_level(logging.WARNING):
        assert isinstance(step_on(halves("cpu"), is_captured=True), EagerStep)
    assert "could not be captured" in caplog.text
    assert "card 3" not in caplog.text
    assert isinstance(step_on(halves("cpu"), is_captured=False), EagerStep)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no graphics card")
@pytest.mark.parametrize("schedule", ["published", "converged"])
@pytest.mark.parametrize("body", [Backend.TORCH, Backend.AUTO])
def test_a_card_releases_what_the_processor_does(
    monkeypatch: pytest.MonkeyPatch, body: Backend, schedule: str
) -> None:
    released = []
    for where in ("cpu", "cuda"):
        monkeypatch.setattr(device, "_chosen", {})
        device.choose_device(where)
        choose_backend(body)
        mechanism = DpSinkhorn(DpSinkhornSpec(**SPEC | {"schedule": schedule}), SPACE)
        mechanism.gradient(samples(6, 0), Private(batch(4, 0)), SilentNoise())
        release = mechanism.gradient(samples(6, 1), Private(batch(3, 1)), SilentNoise())
        assert isinstance(release.blocks[0], LatticeBlock)
        released.append(release_values(release))
    monkeypatch.setattr(device, "_chosen", {})
    choose_backend(Backend.TORCH)
    on_processor, on_card = released
    assert torch.allclose(on_processor, on_card, atol=1e-3)
