"""Votes are those of brute-force nearest neighbours; what is asked is checked before a charge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.errors import MalformedRequest
from curator.mechanisms import votes as module
from curator.mechanisms.votes import Votes, VotesSpec
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock
from curator.sanitizer.outer import RIGHT_RADIUS
from curator.sanitizer.post_process import release_values
from curator.state.asking import private_batches
from tests.fakes.choices import SPACE, VOTES, agreeing, asking, batch, counted, votes
from tests.fakes.noise import NoNoise, SeededNoise

Features = pytest.mark.parametrize("features", ["pixels", "scattering"])


def nearest(subject: Votes, asked: Samples, inside: RecordBatch) -> list[int]:
    """Return the votes by a loop over records and candidates, in Python's integers."""
    each, space = subject.spec.images_per_candidate, subject.space
    levels = torch.round((asked.images_ND.double() + 1) * (space.max_level / 2)).to(torch.uint8)

    def rows(of: Tensor) -> list[list[int]]:
        made = of.double() if subject.spec.features == "pixels" else subject._scattered(of)
        found: list[list[int]] = made.to(torch.int64).tolist()
        return found

    sums = np.array(rows(levels), dtype=object).reshape(len(levels) // each, each, -1).sum(axis=1)
    labels, found = asked.labels_N[::each].tolist(), [0] * len(sums)
    known = zip(rows(inside.levels_MD), inside.labels_M.tolist(), inside.mask_M, strict=True)
    for row, label, is_there in known:
        far = [
            (sum((each * a - b) ** 2 for a, b in zip(row, one, strict=True)), place)
            for place, one in enumerate(sums)
            if labels[place] == label
        ]
        if far and is_there:
            found[min(far)[1]] += 1
    return found


@Features
@pytest.mark.parametrize("each", [1, 3])
def test_votes_are_those_of_the_nearest_candidates(features: str, each: int) -> None:
    subject = votes(features=features, images_per_candidate=each)
    inside = [batch(list(range(8)), seed=seed) for seed in range(4)]
    asked = asking(subject)
    expected = [nearest(subject, asked, one) for one in inside]
    assert counted(subject, asked, *inside).tolist() == np.sum(expected, axis=0).tolist()


def test_two_thousand_candidates_get_what_brute_force_finds() -> None:
    """In floats that are exact, against the whole table of differences; many are as near."""
    generator = np.random.default_rng(3)
    levels = generator.integers(0, 3, (300, 1, 4, 5), dtype=np.uint8)
    classes = generator.integers(0, 3, 300)
    subject = votes(num_candidates=2000, max_size=300)
    asked = asking(subject)
    few = torch.round((asked.images_ND + 1) / 2 * 3).clamp(max=2)  # of 0, 1 and 2
    asked = replace(asked, images_ND=few * 2 / 16 - 1)
    records = PrivateRecords(LabelledImages(levels=levels, labels=classes), 300)
    state = subject.start(private_batches(subject, records, NoNoise()))
    _, release = subject.gradient(state, asked, NoNoise())
    apart = levels.reshape(300, 1, -1).astype(int) - few.numpy().astype(int)
    far = np.where(classes[:, None] == asked.labels_N.numpy(), (apart**2).sum(axis=2), 10**6)
    assert ((far == far.min(axis=1, keepdims=True)).sum(axis=1) > 1).any()  # ties there are
    expected = np.bincount(far.argmin(axis=1), minlength=2000)
    np.testing.assert_array_equal(release_values(release).numpy(), expected)


def test_records_of_a_class_without_candidates_are_silent() -> None:
    subject, of = votes(), batch(list(range(8)))
    asked = asking(subject, labels_N=torch.full((7,), 2))
    assert int(counted(subject, asked, of).sum()) == int((of.labels_M == 2).sum())


def test_of_equal_candidates_the_first_one_has_the_votes() -> None:
    subject, of = votes(), batch(list(range(8)))
    expected = [int((of.labels_M == label).sum()) for label in range(3)]
    assert counted(subject, agreeing(subject), of).tolist() == [*expected, 0, 0, 0, 0]


def test_parts_of_a_batch_are_asked_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    subject, of = votes(), batch(list(range(8)))
    whole = counted(subject, asking(subject), of)
    monkeypatch.setattr(module, "_AT_ONCE", 1)
    assert torch.equal(counted(subject, asking(subject), of), whole)


@Features
def test_no_sum_can_be_inexact(features: str) -> None:
    """The largest images there may be, of the most images of a candidate."""
    space = ImageSpace(channels=1, height=1 << 10, width=1 << 10, max_level=255, num_classes=1)
    largest = space.dimension * 255 * 255 if features == "pixels" else RIGHT_RADIUS**2
    most = module.MAX_IMAGES_PER_CANDIDATE
    assert (most**2 + 2 * most * most) * largest < 2**53


@Features
def test_any_number_of_records_gives_the_same_shapes(features: str) -> None:
    subject = votes(features=features)
    for of in ([batch([])], [batch([0])], [batch(list(range(8))), batch([0, 0, 1])]):
        state = subject.start(map(Private, of))
        _, release = subject.gradient(state, asking(subject), SeededNoise(1))
        (block,) = release.blocks
        assert isinstance(block, LatticeBlock)
        assert block.integers.shape == (7,)
        assert [len(rows) for rows in state.kept] == [8] * len(of)


def test_a_state_is_its_records_so_that_nothing_is_lost_in_a_crash() -> None:
    subject, of = votes(features="scattering"), batch([0, 1, 2, 3])
    state = subject.start([Private(of)])
    _, first = subject.gradient(state, asking(subject), SeededNoise(2))
    assert subject.pack(state) == {}
    back = subject.unpack({}, [Private(of)])
    _, again = subject.gradient(back, asking(subject), SeededNoise(2))
    assert torch.equal(release_values(first), release_values(again))


def test_every_step_costs_a_gaussian_release() -> None:
    subject = votes(max_records_per_unit=5, images_per_candidate=2)
    assert subject.step_event() == GaussianEvent(noise_multiplier=1.1)
    assert subject.setup_event() == NoEvent()
    needed = subject.requirements()
    assert (needed.samples, needed.max_size, needed.max_records_per_unit) == (None, 30, 5)
    assert (needed.numbers_per_row, needed.answer_numbers, subject.rows_per_step) == (20, 7, 14)


@pytest.mark.parametrize(
    "changes",
    [
        {"images_ND": torch.zeros(13, 20)},
        {"images_ND": torch.zeros(14, 21)},
        {"labels_N": torch.zeros(13, dtype=torch.int64)},
        {"labels_N": torch.full((14,), 3)},
        {"labels_N": torch.full((14,), -1)},
        {"labels_N": torch.arange(14) % 3},
        {"weights": b"1"},
    ],
)
def test_candidates_that_were_not_declared_are_refused(changes: dict[str, Any]) -> None:
    subject = votes(images_per_candidate=2)
    subject.check_samples(asking(subject))
    with pytest.raises(MalformedRequest):
        subject.check_samples(asking(subject, **changes))


@pytest.mark.parametrize(
    ("changes", "space", "words"),
    [
        ({"max_size": 10**9, "num_candidates": 60_000}, {}, "too much work"),
        ({"features": "scattering"}, {"height": 400, "width": 400}, "too many"),
        (
            {"noise_multiplier": 3e4, "max_records_per_unit": 1000, "max_size": 1},
            {},
            "too large for the lattice",
        ),
    ],
)
def test_absurd_runs_are_refused(changes: dict[str, Any], space: Any, words: str) -> None:
    with pytest.raises(MalformedRequest, match=words):
        Votes(VotesSpec(**(VOTES | changes)), replace(SPACE, **space))
    with pytest.raises(ValidationError, match="at most 65536"):
        VotesSpec(**(VOTES | {"num_candidates": 65_536, "images_per_candidate": 2}))


@Features
def test_what_a_run_keeps_is_known_before(features: str) -> None:
    subject, of = votes(features=features, max_size=8), batch(list(range(8)))
    state = subject.start([Private(of)])
    held = [of.levels_MD, of.labels_M, of.mask_M, of.units_M, *state.kept]
    assert sum(one.nbytes for one in held) <= subject.spec.kept_bytes(SPACE)
