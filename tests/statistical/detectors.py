"""Checks that a planted fault must not survive; each raises AssertionError when it sees one.

Statistical ones state their false-alarm probability, at most 1e-7 each.
"""

from __future__ import annotations

import json

import numpy as np
import torch
from scipy.stats import binom

from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.ledger.datasets_and_runs import RunStatus
from curator.mechanisms.catalogue import parse_mechanism
from curator.mechanisms.dp_sinkhorn import DpSinkhorn
from curator.privacy.batches import RecordBatch
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.private import Private
from curator.privacy.release import FloatBlock, LatticeBlock
from curator.sanitizer import clipped, summed
from curator.sanitizer.entropy import OsEntropy
from curator.service.answer_step import release_gradient
from curator.service.find_run import resume_run
from curator.service.live_run import Answer
from tests.fakes.curator import (
    ALICE,
    SINKHORN,
    memory_ledger,
    opened,
    service,
    small_images,
    step_request,
)
from tests.fakes.facts import small_facts
from tests.fakes.noise import NoNoise

CLIP, Z = 0.5, 1.1


class PlantedError(RuntimeError):
    """What fails inside a private computation."""


SPACE = small_facts().space
ROWS, PIXELS = 60, 400


def noise_std_is_two_clip_norms_times_the_multiplier() -> None:
    """24,000 draws; false alarm below 1e-7 (5.4 standard errors of a standard deviation)."""
    (block,) = clipped.release_clipped(
        lambda: torch.zeros(ROWS, PIXELS),
        shape=(ROWS, PIXELS),
        clip_norm=CLIP,
        noise_multiplier=Z,
        noise=OsEntropy(),
    ).blocks
    assert isinstance(block, LatticeBlock)
    std = float((block.integers.double() * block.grid).std())
    assert abs(std / (2 * CLIP * Z) - 1) < 5.4 / (2 * ROWS * PIXELS) ** 0.5


def two_batches_never_differ_by_more_than_two_clip_norms() -> None:
    for scale in (0.1, 1.0, 1e3, 1e8):
        ends = []
        for sign in (1.0, -1.0):
            (block,) = clipped.release_clipped(
                lambda value=sign * scale: torch.full((3, 4), value),  # type: ignore[misc]
                shape=(3, 4),
                clip_norm=CLIP,
                noise_multiplier=Z,
                noise=NoNoise(),
            ).blocks
            assert isinstance(block, LatticeBlock)
            ends.append(block.integers.double() * block.grid)
        assert torch.linalg.vector_norm(ends[0] - ends[1]) <= 2 * CLIP


def nothing_but_zero_leaves_when_the_computation_fails() -> None:
    def failing() -> torch.Tensor:
        raise PlantedError

    for compute in (failing, lambda: torch.full((2, 2), torch.nan)):
        (block,) = clipped.release_clipped(
            compute, shape=(2, 2), clip_norm=CLIP, noise_multiplier=Z, noise=NoNoise()
        ).blocks
        assert isinstance(block, LatticeBlock)
        assert block.integers.abs().sum() == 0


def private_shapes_are_public() -> None:
    sizes = set()
    for count in (0, 1, 5):
        images = LabelledImages(
            levels=np.zeros((count, 1, 2, 2), np.uint8), labels=np.zeros(count, np.int64)
        )
        every = SamplingRate.at_least(1.0)
        batch = PrivateRecords(images).poisson_batch(every, 8, OsEntropy()).unseal()
        sizes.add((batch.levels_MD.shape, batch.labels_M.shape, batch.mask_M.shape))
    assert len(sizes) == 1


def black_records(count: int) -> PrivateRecords:
    levels = np.zeros((count, 1, 2, 2), dtype=np.uint8)
    return PrivateRecords(LabelledImages(levels=levels, labels=np.zeros(count, dtype=np.int64)))


def mechanism() -> DpSinkhorn:
    made = parse_mechanism("dp-sinkhorn", json.dumps(SINKHORN), SPACE)
    assert isinstance(made, DpSinkhorn)
    return made


def an_empty_batch_is_noised_like_any_other() -> None:
    """The noised rows hold 12 coordinates of standard deviation 30: all small has chance 1e-30."""
    empty = PrivateRecords(
        LabelledImages(levels=np.zeros((0, 1, 2, 2), np.uint8), labels=np.zeros(0, np.int64))
    )
    ctx = service(records=empty)
    run = opened(ctx)
    answer = release_gradient(ctx, ALICE, step_request(run.run_id, 1)).result(10)
    block = answer.release.blocks[0]
    assert isinstance(block, LatticeBlock)
    assert (block.integers.double() * block.grid).abs().max() > 0.5


def noise_is_never_repeated() -> None:
    first, second = OsEntropy(), OsEntropy()
    draws = [tuple(source.discrete_gaussian(8).tolist()) for source in (first, first, second)]
    words = [tuple(source.uniform_words(4).tolist()) for source in (first, first, second)]
    assert len(set(draws)) == len(set(words)) == 3


def noised_rows_are_integers_on_the_public_grid() -> None:
    ctx = service()
    run = opened(ctx)
    answer: Answer = release_gradient(ctx, ALICE, step_request(run.run_id, 1)).result(10)
    noised, public = answer.release.blocks
    assert isinstance(noised, LatticeBlock)
    assert noised.integers.dtype is torch.int64
    assert noised.integers.shape == (3, 4)
    assert isinstance(public, FloatBlock)


def the_charged_event_is_what_is_done() -> None:
    """Rate, multiplier and relation of the ledger's record are those of the mechanism."""
    made = mechanism()
    event = made.step_event()
    assert isinstance(event, SampledGaussianEvent)
    assert event.sampling_rate == made.spec.rate
    assert event.sampling_rate.exact >= SINKHORN["sampling_rate"]
    assert event.noise_multiplier == SINKHORN["noise_multiplier"]
    assert str(memory_ledger().statement("small").adjacency) == "add-or-remove-one-record"


def one_unit_moves_a_sum_by_at_most_the_noise_s_unit() -> None:
    """Brute force: leave out each unit of a small grouped set."""
    units = torch.tensor([0, 0, 0, 1, 2, 2])
    labels = torch.tensor([0, 0, 1, 1, 0, 1])

    def sums(kept: torch.Tensor) -> tuple[torch.Tensor, float]:
        batch = RecordBatch(
            levels_MD=torch.arange(6, dtype=torch.uint8).reshape(6, 1)[kept],
            labels_M=labels[kept],
            mask_M=torch.ones(int(kept.sum()), dtype=torch.bool),
            units_M=units[kept],
        )
        (block,) = summed.release_class_sums(
            [Private(batch)],
            lambda levels: torch.ones((len(levels), 2), dtype=torch.float64) / 2**0.5,
            num_features=2,
            num_classes=2,
            noise_multiplier=Z,
            noise=NoNoise(),
        ).blocks
        assert isinstance(block, LatticeBlock)
        return block.integers.double(), block.grid

    whole, grid = sums(torch.ones(6, dtype=torch.bool))
    for unit in range(3):
        rest, _ = sums(units != unit)
        assert torch.linalg.vector_norm(whole - rest) * grid <= 1.0 + 1e-12


def sums_are_noised_with_the_charged_multiplier() -> None:
    """20,000 draws; false alarm below 1e-7."""
    (block,) = summed.release_class_sums(
        [],
        lambda levels: levels.double(),
        num_features=2_000,
        num_classes=10,
        noise_multiplier=Z,
        noise=OsEntropy(),
    ).blocks
    assert isinstance(block, LatticeBlock)
    std = float((block.integers.double() * block.grid).std())
    assert abs(std / Z - 1) < 5.4 / (2 * 20_000) ** 0.5
    event = parse_mechanism(
        "mean-embedding",
        json.dumps(
            {"num_features": 8, "bandwidths": [1.0], "feature_seed": 1}
            | {"noise_multiplier": Z, "count_scale": 0.5}
        ),
        SPACE,
    ).setup_event()
    assert event == GaussianEvent(noise_multiplier=Z)


def a_kept_release_is_never_made_again() -> None:
    ledger = memory_ledger()
    first = service(ledger, noise=OsEntropy())
    run = opened(first, "mean-embedding", num_steps=100)
    before = release_gradient(first, ALICE, step_request(run.run_id, 1)).result(10)
    second = service(ledger, holder="second", noise=OsEntropy())
    _, step = resume_run(second.runs, ALICE, run.run_id)
    after = release_gradient(second, ALICE, step_request(run.run_id, step)).result(10)
    blocks = [one.release.blocks[0] for one in (before, after)]
    assert all(isinstance(block, FloatBlock) for block in blocks)
    assert blocks[0].values.equal(blocks[1].values)  # type: ignore[union-attr]
    assert ledger.run(run.run_id).status is RunStatus.OPEN


def the_sampler_takes_each_record_with_the_charged_probability() -> None:
    """20,000 draws of 5 records at rate 1/2; false alarm below 1e-7 by the exact binomial law."""
    records, noise = PrivateRecords(small_images()), OsEntropy()
    rate = mechanism().spec.rate
    taken = sum(
        int(records.poisson_batch(rate, 8, noise).unseal().mask_M.sum()) for _ in range(4_000)
    )
    low, high = binom.ppf([5e-8, 1 - 5e-8], 4_000 * 5, float(rate))
    assert low <= taken <= high
