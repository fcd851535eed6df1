"""DP-SWD: what is released, what it costs, and what the private batch cannot decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from curator.accounting.events.none import NoEvent
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
)
from curator.accounting.overflow import overflow_probability
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences.sliced import clip_rows, sliced_distance
from curator.errors import MalformedRequest
from curator.mechanisms.base import SampledMechanism
from curator.mechanisms.dp_swd import DpSwd, DpSwdSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock
from curator.sanitizer.directions import Directions, draw_directions
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.post_process import release_values

SPACE = ImageSpace(channels=1, height=2, width=3, max_level=16, num_classes=3)
DIMENSION = 9
PARAMETERS: dict[str, Any] = {
    "sampling_rate": 0.1,
    "capacity": 6,
    "num_samples": 4,
    "num_projections": 5,
    "clip_norm": 2.0,
    "label_scale": 1.5,
    "origin": "black",
    "noise_multiplier": 1.1,
    "max_size": 30,
    "max_records_per_unit": 1,
}


class Recorded:
    """Real words for directions and slots; no noise."""

    def __init__(self) -> None:
        self._source = OsEntropy()
        self.draws: list[int] = []

    def discrete_gaussian(self, num_values: int) -> Tensor:
        self.draws.append(num_values)
        return torch.zeros(num_values, dtype=torch.int64)

    def uniform_words(self, num_words: int) -> Tensor:
        return self._source.uniform_words(num_words)


def mechanism(**changes: object) -> DpSwd:
    return DpSwd(DpSwdSpec(**(PARAMETERS | changes)), SPACE)


def samples(num_rows: int = 4, seed: int = 0) -> Samples:
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


def test_is_a_sampled_mechanism_that_charges_each_step() -> None:
    subject = mechanism()
    assert isinstance(subject, SampledMechanism)
    assert subject.setup_event() == NoEvent()
    rate = SamplingRate.at_least(0.1)
    assert subject.step_event() == SampledSlicedGaussianEvent(
        sampling_rate=rate,
        base=SlicedGaussianEvent(dimension=DIMENSION, num_projections=5, noise_multiplier=1.1),
        overflow_probability=overflow_probability(30, rate, 6),
    )
    assert (subject.spec.capacity, subject.rows_per_step) == (6, 4)


def test_units_of_several_records_fill_the_slots_sooner() -> None:
    event = mechanism(max_records_per_unit=2).step_event()
    assert isinstance(event, SampledSlicedGaussianEvent)
    assert event.overflow_probability == overflow_probability(30, SamplingRate.at_least(0.1), 3)


def test_one_row_for_each_sample_and_noise_on_both_sides() -> None:
    noise = Recorded()
    values = release_values(mechanism().gradient(samples(), records(5), noise))
    assert values.shape == (4, 6)
    assert noise.draws == [30, 30]


@pytest.mark.parametrize("origin", ["black", "grey", "white"])
def test_the_gradient_is_that_of_the_distance(origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By autograd from the definition, in pixel values: rows, clip, projections, zero slots."""
    kept: list[Directions] = []

    def drawn(*arguments: Any) -> Directions:
        kept.append(draw_directions(*arguments))
        return kept[-1]

    monkeypatch.setattr("curator.mechanisms.sliced_step.draw_directions", drawn)
    subject, batch, asked = mechanism(origin=origin), records(5), samples()
    found = release_values(subject.gradient(asked, batch, Recorded()))
    zero = {"black": -1.0, "grey": 0.0, "white": 1.0}[origin]
    inside = batch.unseal()

    def rows_of(pixels: Tensor, labels: Tensor) -> Tensor:
        classes = (labels.unsqueeze(1) == torch.arange(3)).double() * 1.5
        return clip_rows(torch.cat((pixels - zero, classes), dim=1), 2.0)

    private = rows_of(inside.levels_MD.double() / 8 - 1, inside.labels_M)
    private[5] = 0
    images = asked.images_ND.double().requires_grad_()
    public = torch.cat((rows_of(images, asked.labels_N), torch.zeros(2, 9).double()))
    units = kept[0].unit_columns
    distance = sliced_distance(public @ units, private @ units) * DIMENSION
    (wanted,) = torch.autograd.grad(distance, images)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    assert float(wanted.abs().max()) > 1e-2


def test_equal_clouds_have_a_gradient_that_is_almost_zero() -> None:
    batch = records(4).unseal()
    equal = Samples(
        images_ND=batch.levels_MD[:4].float() / 8 - 1,
        labels_N=batch.labels_M[:4],
    )
    values = release_values(mechanism().gradient(equal, Private(batch), Recorded()))
    assert values.isfinite().all()
    assert float(values.abs().max()) < 1e-3


@pytest.mark.parametrize("num_records", [0, 1, 6])
def test_every_batch_size_gives_the_same_shapes(num_records: int) -> None:
    noise = Recorded()
    values = release_values(mechanism().gradient(samples(), records(num_records), noise))
    assert values.shape == (4, 6)
    assert values.isfinite().all()
    assert noise.draws == [30, 30]


def test_a_gradient_points_to_the_records() -> None:
    """A thousand directions: the mean step of a dark cloud is toward the light records."""
    dark = Samples(images_ND=torch.full((4, 6), -0.9), labels_N=torch.zeros(4, dtype=torch.int64))
    subject = mechanism(num_projections=1000, clip_norm=10.0, label_scale=0.0)
    values = release_values(subject.gradient(dark, records(4), Recorded()))
    assert bool((values < 0).all())


def test_directions_are_never_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Directions] = []

    def drawn(*arguments: Any) -> Directions:
        kept.append(draw_directions(*arguments))
        return kept[-1]

    monkeypatch.setattr("curator.mechanisms.sliced_step.draw_directions", drawn)
    subject = mechanism()
    for _ in range(2):
        subject.gradient(samples(), records(3), OsEntropy())
    first, second = kept
    assert not bool((first.integers_DK == second.integers_DK).any())


def test_a_broken_batch_is_answered_like_any_other() -> None:
    batch = RecordBatch(
        levels_MD=torch.zeros(6, 5, dtype=torch.uint8),  # wrong width: no row can be computed
        labels_M=torch.zeros(6, dtype=torch.int64),
        mask_M=torch.ones(6, dtype=torch.bool),
        units_M=torch.arange(6),
    )
    subject = mechanism()
    (block,) = subject.project(
        samples(), Private(batch), draw_directions(DIMENSION, 5, OsEntropy()), Recorded()
    ).blocks
    assert isinstance(block, LatticeBlock)
    assert block.integers.count_nonzero() == 0
    assert release_values(subject.gradient(samples(), Private(batch), OsEntropy())).shape == (4, 6)


@pytest.mark.parametrize("label", [-1, 3, 10**6])
def test_a_label_outside_the_classes_is_no_label(label: int) -> None:
    rows = mechanism().record_rows(samples())(
        torch.zeros(1, 6, dtype=torch.uint8), torch.tensor([label])
    )
    assert rows.abs().sum() == 0


def test_units_are_numbered_in_the_order_in_which_they_were_drawn() -> None:
    """The numbers that `release_projections` compares with the units that always fit."""
    images = LabelledImages(
        levels=np.ones((9, 1, 2, 3), dtype=np.uint8),
        labels=np.zeros(9, dtype=np.int64),
        groups=np.repeat(np.arange(3), 3),
        max_per_group=3,
    )
    noise = OsEntropy()
    for _ in range(20):
        sealed = PrivateRecords(images).poisson_batch(SamplingRate.at_least(1), 8, noise)
        assert sealed.unseal().units_M.tolist() == [0, 0, 0, 1, 1, 1, -1, -1]


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        (samples(3), "4 rows"),
        (samples(5), "4 rows"),
        (Samples(images_ND=torch.zeros(4, 5), labels_N=torch.zeros(4).long()), "6 pixels"),
        (Samples(images_ND=torch.zeros(4, 6), labels_N=torch.full((4,), 3)), "below 3"),
    ],
)
def test_undeclared_samples_are_refused(changed: Samples, detail: str) -> None:
    with pytest.raises(MalformedRequest, match=detail):
        mechanism().check_samples(changed)


def test_declared_samples_pass() -> None:
    mechanism().check_samples(samples())


@pytest.mark.parametrize("field", sorted(PARAMETERS))
def test_nothing_has_a_default(field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        DpSwdSpec(**{key: value for key, value in PARAMETERS.items() if key != field})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sampling_rate", 0.0),
        ("sampling_rate", float("nan")),
        ("capacity", 0),
        ("capacity", True),
        ("capacity", 3),  # below num_samples
        ("num_samples", 0),
        ("num_samples", 7),
        ("num_projections", 0),
        ("num_projections", 1 << 23),
        ("clip_norm", 0.0),
        ("clip_norm", float("inf")),
        ("label_scale", -1.0),
        ("label_scale", 1e9),
        ("origin", "blue"),
        ("noise_multiplier", 0.0),
        ("noise_multiplier", float("nan")),
        ("noise_multiplier", 1e5),
        ("max_size", 0),
        ("max_size", 30.0),
        ("max_size", 1 << 33),
        ("max_records_per_unit", 0),
        ("max_records_per_unit", 7),
        ("epsilon", 1.0),
    ],
)
def test_wrong_parameters_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        DpSwdSpec(**(PARAMETERS | {field: value}))


@pytest.mark.parametrize(
    ("side", "changes"),
    [
        (501, {}),
        (200, {"num_projections": 2000}),
        (200, {"capacity": 2000}),
    ],
)
def test_sizes_beyond_memory_are_refused(side: int, changes: dict[str, object]) -> None:
    space = ImageSpace(channels=1, height=side, width=side, max_level=255, num_classes=2)
    with pytest.raises(MalformedRequest, match="images of this size"):
        DpSwd(DpSwdSpec(**(PARAMETERS | changes)), space)
