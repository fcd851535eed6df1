"""What teachers say: nearer to records, or more so than another image."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from curator.divergences import critic_training
from curator.divergences.critic_training import Minibatch
from curator.divergences.critics import (
    CriticShape,
    Parameters,
    initial_critics,
    public_normals,
    scores,
)
from curator.divergences.teachers import Questions, opinions

K, R, N = 5, 3, 6
SHAPE = CriticShape(kind="mlp", width=4, channels=1, height=2, pixels_per_row=2, num_classes=3)


def drawn(*size: int) -> Tensor:
    generator = torch.Generator().manual_seed(math.prod(size))
    return torch.rand(*size, generator=generator) * 2 - 1


def labels(count: int) -> Tensor:
    return torch.eye(3)[torch.arange(count) % 3]


def shown() -> Minibatch:
    return Minibatch(
        records_KRD=drawn(K, R, 4),
        record_labels_KRL=labels(R).expand(K, R, 3),
        images_ND=drawn(N, 4),
        image_labels_NL=labels(N),
        mixing_KR=torch.zeros(K, R),
    )


def said(teachers: Parameters, seconds: Tensor | None) -> Tensor:
    asked = Questions(firsts_ND=drawn(N + 1, 4), seconds_ND=seconds, onehot_NL=labels(N + 1))
    return torch.cat(list(opinions(SHAPE, teachers, asked, shown())))


def alone(teachers: Parameters, k: int) -> Parameters:
    return {name: value[k] for name, value in teachers.items()}


def assert_agree(votes: Tensor, margins: Tensor) -> None:
    """Compare votes with the signs of scores, but for ties within a float32's rounding."""
    clear = margins.abs() > 1e-5
    assert int(clear.sum()) > 0.9 * clear.numel()
    assert torch.equal(votes[clear], margins[clear] > 0)


def test_an_image_is_real_if_its_score_is_nearer_to_that_of_records() -> None:
    teachers, batch = initial_critics(SHAPE, K, 3), shown()
    found = said(teachers, None)
    assert 0 < int(found.sum()) < found.numel()
    for k in range(K):
        one = alone(teachers, k)
        of_records = scores(SHAPE, one, batch.records_KRD[k], labels(R)).mean()
        of_images = scores(SHAPE, one, batch.images_ND, labels(N)).mean()
        of_asked = scores(SHAPE, one, drawn(N + 1, 4), labels(N + 1))
        assert_agree(found[k], of_asked - (of_records + of_images) / 2)


def test_the_higher_score_of_a_pair_is_more_real() -> None:
    teachers = initial_critics(SHAPE, K, 3)
    seconds = drawn(N + 1, 4).roll(1, 0)
    found = said(teachers, seconds)
    for k in range(K):
        one = alone(teachers, k)
        first = scores(SHAPE, one, drawn(N + 1, 4), labels(N + 1))
        assert_agree(found[k], first - scores(SHAPE, one, seconds, labels(N + 1)))


@pytest.mark.parametrize("seconds", [None, drawn(N + 1, 4).roll(1, 0)])
def test_parts_say_what_the_whole_says_and_stay_apart(
    seconds: Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    teachers = initial_critics(SHAPE, K, 3)
    whole = said(teachers, seconds)
    monkeypatch.setattr(critic_training.chunks, "__defaults__", (2,))
    assert torch.equal(said(teachers, seconds), whole)
    teachers["weight1"][1] = torch.nan
    broken = said(teachers, seconds)
    assert not broken[1].any()  # a comparison with NaN is a no
    assert torch.equal(broken[[0, 2, 3, 4]], whole[[0, 2, 3, 4]])


def test_public_normals_are_pinned_and_standard() -> None:
    """40,000 values: a false alarm of a sound generator has probability below 1e-7."""
    values = public_normals(1, "a", 40_000).double()
    assert torch.equal(values.float(), public_normals(1, "a", 40_000))
    assert not torch.equal(values.float(), public_normals(1, "b", 40_000))
    assert abs(float(values.mean())) < 5.4 / 200
    assert abs(float(values.square().mean()) - 1) < 5.4 * math.sqrt(2) / 200
    assert abs(float(values.pow(4).mean()) - 3) < 5.4 * math.sqrt(96) / 200
    assert float(values.abs().max()) < 8.6
