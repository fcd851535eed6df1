"""Brute force over neighbouring data sets: a unit moves a noised sum by its bound, at every update.

The sampler is the real one with words that are the same in both worlds; the neighbour's samples are
laid beside the others', slot by slot, as in the proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from curator.divergences.critics import CriticShape
from curator.divergences.dp_critic import Examples, example_slopes, initial_vector
from curator.privacy.batches import RecordBatch
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock
from curator.sanitizer.example_sum import ExampleBounds, release_example_sum
from curator.sanitizer.lattice import LATTICE_VARIANCE
from tests.fakes.noise import NoNoise

Z, SLOTS, PIXELS, CLASSES = 1.1, 12, 4, 2
Record = tuple[list[int], int]
record_strategy = st.tuples(
    st.lists(st.integers(0, 255), min_size=PIXELS, max_size=PIXELS), st.integers(-1, CLASSES)
)
unit_strategy = st.lists(record_strategy, min_size=1, max_size=3)


class FixedOrder(NoNoise):
    """Permutes slots by words that a test chose."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def uniform_words(self, num_words: int) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randint(-(2**62), 2**62, (num_words,), generator=generator)


def laid_out(units: list[list[Record]]) -> Private[RecordBatch]:
    """Return a sample of these units, one after the other; what does not fit whole is left out."""
    levels = torch.zeros((SLOTS, PIXELS), dtype=torch.uint8)
    labels = torch.zeros(SLOTS, dtype=torch.int64)
    owners = torch.full((SLOTS,), -1, dtype=torch.int64)
    place = 0
    for number, unit in enumerate(units):
        if place + len(unit) > SLOTS:
            break
        for values, label in unit:
            levels[place] = torch.tensor(values, dtype=torch.uint8)
            labels[place], owners[place] = label, number
            place += 1
    return Private(
        RecordBatch(levels_MD=levels, labels_M=labels, mask_M=owners >= 0, units_M=owners)
    )


def summed(
    units: list[list[Record]], bounds: ExampleBounds, shape: CriticShape, vector: Tensor, seed: int
) -> Tensor:
    def slopes(levels_MP: Tensor, labels_M: Tensor) -> Iterator[list[Tensor]]:
        onehot = torch.nn.functional.one_hot(labels_M, CLASSES).float()
        images = levels_MP.float() / 127.5 - 1
        every = Examples(images_ND=images, onehot_NL=onehot, are_records=True)
        for some in (slice(0, 7), slice(7, SLOTS)):
            yield example_slopes(shape, vector, every.some(some))

    release = release_example_sum(
        laid_out(units),
        slopes,
        num_classes=CLASSES,
        num_values=shape.num_parameters,
        bounds=bounds,
        noise=FixedOrder(seed),
    )
    (block,) = release.blocks
    assert isinstance(block, LatticeBlock)
    return block.integers


def moved_by(first: Tensor, second: Tensor) -> int:
    """Return the squared distance, in exact integers."""
    return sum(value * value for value in (first - second).tolist())


@settings(deadline=None, max_examples=60)
@given(
    units=st.lists(unit_strategy, max_size=5),
    extra=unit_strategy,
    kind=st.sampled_from(["mlp", "conv"]),
    clip=st.sampled_from([1e-3, 0.1, 1.0, 100.0]),
    scale=st.sampled_from([0.0, 1.0, 1e4, 1e25, float("nan")]),
    seed=st.integers(0, 2**31),
)
def test_one_unit_moves_a_sum_by_its_bound(
    units: list[list[Record]],
    extra: list[Record],
    kind: Any,
    clip: float,
    scale: float,
    seed: int,
) -> None:
    shape = CriticShape(
        kind=kind, width=3, channels=1, height=2, pixels_per_row=2, num_classes=CLASSES
    )
    vector = initial_vector(shape, 1) * scale
    most = 3
    bounds = ExampleBounds(clip_norm=clip, records_per_unit=most, noise_multiplier=Z)
    places = SLOTS // most
    kept, further = units[:places], [*units[: places - 1], extra]
    base = summed(kept, bounds, shape, vector, seed)
    without = summed(kept[: places - 1], bounds, shape, vector, seed)
    with_it = summed(further, bounds, shape, vector, seed)
    limit = LATTICE_VARIANCE / Z**2  # D^2 in lattice units
    assert moved_by(with_it, without) <= limit  # there is a place left
    assert moved_by(base, with_it) <= 4 * limit  # there is none, and one is replaced


def test_the_bound_is_nearly_met() -> None:
    """A long gradient is clipped to C: what noise is compared with."""
    shape = CriticShape(
        kind="mlp", width=3, channels=1, height=2, pixels_per_row=2, num_classes=CLASSES
    )
    vector = initial_vector(shape, 1)
    bounds = ExampleBounds(clip_norm=1e-3, records_per_unit=1, noise_multiplier=Z)
    lone = summed([[([255, 0, 255, 9], 1)]], bounds, shape, vector, 3)
    share = moved_by(lone, torch.zeros_like(lone)) * Z**2 / LATTICE_VARIANCE
    assert 0.99 < share <= 1


def test_clipping_the_mean_instead_would_be_noticed() -> None:
    """Two records of one batch clipped together, and one more moves the sum beyond its bound."""
    shape = CriticShape(
        kind="mlp", width=3, channels=1, height=2, pixels_per_row=2, num_classes=CLASSES
    )
    bounds = ExampleBounds(clip_norm=1e-3, records_per_unit=1, noise_multiplier=Z)
    vector = initial_vector(shape, 1)

    def together(units: list[list[Record]]) -> Tensor:
        def slopes(levels_MP: Tensor, labels_M: Tensor) -> Iterator[list[Tensor]]:
            onehot = torch.nn.functional.one_hot(labels_M, CLASSES).float()
            images = levels_MP.float() / 127.5 - 1
            given = Examples(images_ND=images, onehot_NL=onehot, are_records=True)
            parts = example_slopes(shape, vector, given)
            yield [part.mean(dim=0, keepdim=True).expand(part.shape).clone() for part in parts]

        release = release_example_sum(
            laid_out(units),
            slopes,
            num_classes=CLASSES,
            num_values=shape.num_parameters,
            bounds=bounds,
            noise=NoNoise(),
        )
        block = release.blocks[0]
        assert isinstance(block, LatticeBlock)
        return block.integers

    few: list[list[Record]] = [[([255, 0, 0, 9], 1)]] * 8
    moved = moved_by(together(few), together([*few, [([0, 255, 255, 200], 0)]]))
    assert moved > LATTICE_VARIANCE / Z**2
