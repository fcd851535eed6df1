"""What a state takes is what its mechanism said before there was one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from curator.mechanisms.catalogue import read_specification
from curator.mechanisms.dp_cgan import DpCgan
from curator.mechanisms.mean_embedding import MeanEmbedding, MeanEmbeddingSpec
from curator.privacy.batches import ImageSpace, Samples
from tests.fakes.curator import SINKHORN
from tests.fakes.noise import SeededNoise
from tests.unit.curator.mechanisms import (
    test_adversarial_dp_sinkhorn,
    test_dp_cgan,
    test_dp_merf_ae,
    test_g_pate,
    test_gs_wgan_mean,
    test_one_critic,
    test_pate_gan,
)
from tests.unit.curator.mechanisms.test_teachers import SPACE

SMALL = 64  # bytes of counters, and of a pace

SUBJECTS: dict[str, Callable[[], Any]] = {
    "adversarial": lambda: test_adversarial_dp_sinkhorn.mechanism(),
    "adversarial, conv": lambda: test_adversarial_dp_sinkhorn.mechanism(extractor="conv"),
    "dp-cgan": lambda: test_dp_cgan.mechanism(),
    "g-pate": lambda: test_g_pate.mechanism(),
    "gs-wgan-mean": lambda: test_gs_wgan_mean.mechanism(),
    "gs-wgan-mean, conv": lambda: test_gs_wgan_mean.mechanism(critic="conv"),
    "gs-wgan-decoupled": lambda: test_one_critic.decoupled(),
    "gs-wgan-round-robin": lambda: test_one_critic.round_robin(),
    "pate-gan, relative": lambda: test_pate_gan.mechanism(labels="relative"),
    "pate-gan, absolute": lambda: test_pate_gan.mechanism(labels="absolute", teacher="conv"),
}


def tensors(value: Any) -> Iterator[Tensor]:
    """Yield all tensors of a state."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | tuple | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from tensors(one)
    elif is_dataclass(value):
        for field in fields(value):
            yield from tensors(getattr(value, field.name))


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_state_is_as_large_as_was_said(name: str) -> None:
    subject = SUBJECTS[name]()
    fresh = test_dp_cgan.stream(subject) if isinstance(subject, DpCgan) else None
    batches = fresh or test_gs_wgan_mean.records().batches(8)
    state, rows, noise = subject.start(batches), subject.rows_per_step, SeededNoise(1)
    assert rows is not None
    images = torch.rand(rows, SPACE.dimension, generator=torch.Generator().manual_seed(1)) * 2 - 1
    samples = Samples(images_ND=images, labels_N=torch.arange(rows) % 3)
    for step in range(1, 8):  # more than a student remembers
        state, _ = subject.gradient(subject.numbered(state, step), samples, noise)
    taken = sum(tensor.untyped_storage().nbytes() for tensor in tensors(state))
    packed = sum(tensor.nbytes for tensor in subject.pack(state).values())
    kept = subject.spec.kept_bytes(SPACE)
    assert taken - SMALL <= kept <= taken + SMALL
    assert packed <= kept + SMALL
    journal = subject.spec.journal_bytes(SPACE)
    if subject.durability == "replay":
        assert journal == samples.images_ND.nbytes + samples.labels_N.nbytes
    else:
        assert journal == 0


@pytest.mark.parametrize(
    "feature_map", ["rff", "scattering-rff", "mix", "sorf", "scattering-sorf", "mix-sorf"]
)
def test_an_embedding_keeps_its_frequencies_and_its_release(feature_map: Any) -> None:
    pixels = not feature_map.startswith("scattering")
    scattering = feature_map.startswith(("scattering", "mix"))
    space = ImageSpace(channels=1, height=8, width=8, max_level=16, num_classes=3)
    spec = MeanEmbeddingSpec(
        feature_map=feature_map,
        num_features=40 * pixels,
        bandwidths=[1.0, 2.0] * pixels,
        num_scattering_features=20 * scattering,
        scattering_bandwidths=[1.0] * scattering,
        feature_seed=1,
        noise_multiplier=1.0,
        count_scale=0.1,
    )
    subject = MeanEmbedding(spec, space)
    release = subject.setup([], SeededNoise(1))
    taken = sum(tensor.nbytes for tensor in tensors(subject._features))
    taken += sum(tensor.nbytes for tensor in tensors(release.blocks))
    assert taken <= spec.kept_bytes(space) <= 1.02 * taken


def test_an_autoencoder_is_released_with_an_embedding_of_codes() -> None:
    subject = test_dp_merf_ae.mechanism()
    release = test_dp_merf_ae.released(subject)
    taken = sum(tensor.nbytes for tensor in tensors((subject._fourier, release.blocks)))
    kept = subject.spec.kept_bytes(test_dp_merf_ae.SPACE)
    assert taken <= kept <= 2 * taken  # weights are half as long as sums


def test_a_method_that_samples_for_each_step_keeps_nothing() -> None:
    spec = read_specification("dp-sinkhorn", json.dumps(SINKHORN))
    assert spec.kept_bytes(SPACE) == spec.journal_bytes(SPACE) == 0
