"""DP-Sinkhorn: what is released, what it costs, and what the private batch cannot decide."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.errors import MalformedRequest
from curator.mechanisms.base import SampledMechanism
from curator.mechanisms.dp_sinkhorn import DpSinkhorn, DpSinkhornSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.private import Private
from curator.privacy.release import FloatBlock, LatticeBlock, Release
from curator.sanitizer.post_process import release_values
from tests.unit.curator.mechanisms.silent import SilentNoise

SPACE = ImageSpace(channels=1, height=2, width=3, max_level=16, num_classes=3)
PARAMETERS: dict[str, Any] = {
    "sampling_rate": 0.1,
    "capacity": 6,
    "num_samples": 4,
    "num_debias": 2,
    "clip_norm": 0.5,
    "noise_multiplier": 1.1,
    "reg": 0.05,
    "l1_weight": 1.0,
    "label_scale": 15.0,
    "schedule": "published",
}


def mechanism(**changes: object) -> DpSinkhorn:
    return DpSinkhorn(DpSinkhornSpec(**(PARAMETERS | changes)), SPACE)


def samples(num_rows: int, seed: int = 0) -> Samples:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(num_rows, 6, generator=generator) * 2 - 1
    return Samples(images_ND=images, labels_N=torch.arange(num_rows) % 3)


def records(num_records: int, capacity: int = 6, seed: int = 1) -> Private[RecordBatch]:
    generator = torch.Generator().manual_seed(seed)
    levels = torch.randint(0, 17, (capacity, 6), generator=generator).to(torch.uint8)
    labels = torch.randint(0, 3, (capacity,), generator=generator)
    mask = torch.arange(capacity) < num_records
    levels, labels = levels * mask.unsqueeze(1).to(torch.uint8), labels * mask.to(torch.int64)
    units = torch.where(mask, torch.arange(capacity), -1)
    return Private(RecordBatch(levels_MD=levels, labels_M=labels, mask_M=mask, units_M=units))


def blocks(release: Release) -> tuple[Tensor, Tensor]:
    noised, public = release.blocks
    assert isinstance(noised, LatticeBlock)
    assert isinstance(public, FloatBlock)
    return noised.integers * noised.grid, public.values.to(torch.float64)


def test_is_a_sampled_mechanism_that_charges_each_step() -> None:
    subject = mechanism()
    assert isinstance(subject, SampledMechanism)
    assert subject.setup_event() == NoEvent()
    assert subject.step_event() == SampledGaussianEvent(
        sampling_rate=SamplingRate.at_least(0.1), noise_multiplier=1.1
    )
    assert subject.spec.capacity == 6


def test_rows_are_n_noised_then_the_debias_rows_without_noise() -> None:
    noise = SilentNoise()
    noised, public = blocks(mechanism().gradient(samples(6), records(5), noise))
    assert noised.shape == (4, 6)
    assert public.shape == (2, 6)
    assert noise.num_draws == 24


def test_both_blocks_are_clipped_as_one_vector() -> None:
    noised, public = blocks(mechanism().gradient(samples(6), records(5), SilentNoise()))
    assert 0.49 < float(noised.norm()) <= 0.5
    assert 0.49 < float(public.norm()) <= 0.5 + 1e-6


def test_a_wide_clip_releases_the_loss_gradient_itself() -> None:
    wide = mechanism(clip_norm=100.0, noise_multiplier=0.01, reg=1.0, schedule="converged")
    release = wide.gradient(samples(6), records(5), SilentNoise())
    other = wide.gradient(samples(6), records(5, seed=2), SilentNoise())
    assert torch.equal(blocks(release)[1], blocks(other)[1])  # no private record moves them
    assert not torch.equal(blocks(release)[0], blocks(other)[0])


@pytest.mark.parametrize("num_records", [0, 1, 6])
@pytest.mark.parametrize("num_debias", [0, 4])
def test_every_batch_size_gives_the_same_shapes(num_records: int, num_debias: int) -> None:
    subject = mechanism(num_debias=num_debias)
    release = subject.gradient(samples(4 + num_debias), records(num_records), SilentNoise())
    assert len(release.blocks) == 1 + (num_debias > 0)
    values = release_values(release)
    assert values.shape == (4 + num_debias, 6)
    assert values.isfinite().all()
    assert bool(values.count_nonzero() > 0) or num_records + num_debias == 0


def test_capacity_changes_nothing_but_the_last_bits() -> None:
    wide = mechanism(capacity=9, clip_norm=1e3)
    narrow = mechanism(clip_norm=1e3)
    batch = records(5).unseal()
    padded = Private(
        RecordBatch(
            levels_MD=torch.cat((batch.levels_MD, torch.zeros(3, 6, dtype=torch.uint8))),
            labels_M=torch.cat((batch.labels_M, torch.zeros(3, dtype=torch.int64))),
            mask_M=torch.cat((batch.mask_M, torch.zeros(3, dtype=torch.bool))),
            units_M=torch.cat((batch.units_M, torch.full((3,), -1))),
        )
    )
    first = release_values(narrow.gradient(samples(6), records(5), SilentNoise()))
    second = release_values(wide.gradient(samples(6), padded, SilentNoise()))
    torch.testing.assert_close(first, second, rtol=1e-3, atol=0.1)


def test_a_broken_batch_is_answered_like_any_other() -> None:
    batch = RecordBatch(
        levels_MD=torch.zeros(6, 5, dtype=torch.uint8),  # wrong width: the computation fails
        labels_M=torch.zeros(6, dtype=torch.int64),
        mask_M=torch.ones(6, dtype=torch.bool),
        units_M=torch.arange(6),
    )
    noised, public = blocks(mechanism().gradient(samples(6), Private(batch), SilentNoise()))
    assert noised.count_nonzero() == 0
    assert public.count_nonzero() > 0


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        (samples(5), "6 rows"),
        (samples(7), "6 rows"),
        (Samples(images_ND=torch.zeros(6, 5), labels_N=torch.zeros(6).long()), "6 pixels"),
        (Samples(images_ND=torch.zeros(6, 6), labels_N=torch.zeros(5).long()), "one label"),
        (Samples(images_ND=torch.zeros(6, 6), labels_N=torch.full((6,), 3)), "below 3"),
    ],
)
def test_undeclared_samples_are_refused(changed: Samples, detail: str) -> None:
    with pytest.raises(MalformedRequest, match=detail):
        mechanism().check_samples(changed)


def test_declared_samples_pass() -> None:
    mechanism().check_samples(samples(6))


@pytest.mark.parametrize("field", sorted(PARAMETERS))
def test_nothing_has_a_default(field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        DpSinkhornSpec(**{key: value for key, value in PARAMETERS.items() if key != field})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sampling_rate", 0.0),
        ("sampling_rate", 1.5),
        ("sampling_rate", float("nan")),
        ("sampling_rate", "0.1"),
        ("capacity", 0),
        ("capacity", True),
        ("capacity", 6.0),
        ("capacity", 10**9),
        ("num_samples", 0),
        ("num_debias", 5),
        ("num_debias", -1),
        ("clip_norm", 0.0),
        ("clip_norm", float("inf")),
        ("noise_multiplier", 0.0),
        ("noise_multiplier", float("nan")),
        ("noise_multiplier", 1e5),  # no lattice point is left
        ("reg", 0.0),
        ("l1_weight", -1.0),
        ("label_scale", -1.0),
        ("schedule", "fast"),
        ("epsilon", 1.0),
    ],
)
def test_wrong_parameters_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        DpSinkhornSpec(**(PARAMETERS | {field: value}))


def test_sizes_beyond_the_dense_solver_need_the_online_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MalformedRequest, match="too large"):
        mechanism(num_samples=4096, num_debias=0, capacity=4096)
    with pytest.raises(ValidationError, match="converged"):
        mechanism(num_samples=4096, num_debias=0, capacity=4096, schedule="converged")


def test_sizes_beyond_memory_are_refused() -> None:
    space = ImageSpace(channels=3, height=512, width=512, max_level=255, num_classes=2)
    with pytest.raises(MalformedRequest, match="images of this size"):
        DpSinkhorn(DpSinkhornSpec(**(PARAMETERS | {"capacity": 1000})), space)
