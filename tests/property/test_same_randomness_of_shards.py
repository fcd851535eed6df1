"""Neighbours with the same random words: as much is drawn, the same is computed, noise cancels.

For the methods with one network a shard. Then nothing but one unit can make a difference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from audit.noise import Tape, TapedNoise
from audit.same_randomness import OperationLog
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.mechanisms import adversarial_dp_sinkhorn, g_pate, pate_gan
from curator.mechanisms.adversarial_dp_sinkhorn import AdversarialDpSinkhorn
from curator.mechanisms.base import StatefulMechanism
from curator.mechanisms.catalogue import parse_mechanism
from curator.mechanisms.g_pate import GPate
from curator.mechanisms.pate_gan import PateGan
from curator.mechanisms.specification import canonical_json
from curator.privacy.batches import Samples
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.averaged import FINE_STD
from tests.unit.curator.mechanisms import (
    test_adversarial_dp_sinkhorn,
    test_g_pate,
    test_pate_gan,
)
from tests.unit.curator.mechanisms.test_teachers import SPACE

Z = 1.1
SUBJECTS: dict[str, AdversarialDpSinkhorn | GPate | PateGan] = {
    "adversarial-dp-sinkhorn": test_adversarial_dp_sinkhorn.mechanism(),
    "adversarial-dp-sinkhorn, conv": test_adversarial_dp_sinkhorn.mechanism(extractor="conv"),
    "g-pate, votes": test_g_pate.mechanism(),
    "g-pate, mean": test_g_pate.mechanism(**test_g_pate.MEAN),
    "pate-gan, absolute": test_pate_gan.mechanism(labels="absolute"),
    "pate-gan, relative": test_pate_gan.mechanism(labels="relative"),
    "pate-gan, conv": test_pate_gan.mechanism(teacher="conv", student="conv"),
}
CANARIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "one record less": lambda levels: levels[1:],
    "none at all": lambda levels: levels[:0],
    "black beside all": lambda levels: np.concatenate((levels, np.zeros_like(levels[:1]))),
    "white beside all": lambda levels: np.concatenate((levels, np.full_like(levels[:1], 16))),
}


def records(levels: np.ndarray) -> PrivateRecords:
    labels = levels.sum(axis=(1, 2, 3)).astype(np.int64) % 3  # of the record
    return PrivateRecords(LabelledImages(levels=levels, labels=labels), 40)


def two_steps(
    name: str, levels: np.ndarray, tape: Tape
) -> tuple[list[Tensor], TapedNoise, list[Any]]:
    """Return the integers that were released, what was drawn and what was computed."""
    noise, released = TapedNoise(tape), []
    subject: StatefulMechanism = SUBJECTS[name]

    def watching(real: Any) -> Any:
        def watched(*arguments: Any, **named: Any) -> Release:
            release: Release = real(*arguments, **named)
            (block,) = release.blocks
            assert isinstance(block, LatticeBlock)
            released.append(block.integers)
            return release

        return watched

    with pytest.MonkeyPatch.context() as scoped:
        for module in (adversarial_dp_sinkhorn, g_pate, pate_gan):
            for made in {"release_votes", "release_critic_mean"} & set(vars(module)):
                scoped.setattr(module, made, watching(vars(module)[made]))
        state = subject.start(records(levels).batches(8))
        rows = subject.rows_per_step
        assert rows is not None
        with OperationLog() as log:
            for step in range(2):
                generator = torch.Generator().manual_seed(step)
                images = torch.rand(rows, 6, generator=generator) * 2 - 1
                samples = Samples(images_ND=images, labels_N=torch.arange(rows) % 3)
                state, _ = subject.gradient(state, samples, noise)
    return released, noise, log.operations


LEVELS = np.random.default_rng(3).integers(0, 17, (25, 1, 2, 3), dtype=np.uint8)


@functools.cache
def first_run(name: str) -> tuple[Tape, tuple[list[Tensor], TapedNoise, list[Any]]]:
    """Return what is compared with all canaries, and the tape of its words."""
    tape = Tape()
    return tape, two_steps(name, LEVELS, tape)


@pytest.mark.parametrize("canary", CANARIES)
@pytest.mark.parametrize("name", SUBJECTS)
def test_one_unit_makes_no_other_difference(name: str, canary: str) -> None:
    """With all records gone several networks change, so only what is computed is compared then."""
    tape, first = first_run(name)
    second = two_steps(name, CANARIES[canary](LEVELS), tape)
    assert first[1].draws == second[1].draws
    assert first[1].taken == second[1].taken
    assert first[2] == second[2]  # operation for operation, shape for shape
    assert "uniform" not in first[1].taken
    if canary != "none at all":
        for one, other in zip(first[0], second[0], strict=True):
            assert Z**2 * int((one - other).square().sum()) <= FINE_STD**2


@pytest.mark.parametrize("name", SUBJECTS)
def test_they_are_what_the_catalogue_makes(name: str) -> None:
    subject = SUBJECTS[name]
    made = parse_mechanism(name.partition(",")[0], canonical_json(subject.spec), SPACE)
    assert type(made) is type(subject)
