"""Right answers are counted exactly, and what is asked is checked before a charge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from safetensors.torch import save

from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.divergences.feature_nets import feature_rows
from curator.errors import MalformedRequest
from curator.mechanisms.record_choices import first_of_least
from curator.mechanisms.score import Score, ScoreSpec
from curator.privacy.private import Private
from curator.privacy.release import LatticeBlock
from curator.sanitizer.post_process import release_values
from tests.fakes.choices import SCORE, SPACE, agreeing, asking, batch, counted, network, score
from tests.fakes.noise import SeededNoise

Architectures = pytest.mark.parametrize(
    "architecture", ["mlp-features", "lenet-features", "cnn-features"]
)


@Architectures
def test_counts_are_those_of_the_network_in_floats(architecture: str) -> None:
    """Against the analyst's own network; scores closer than their grid are nobody's."""
    from analyst.adaptation.networks import build_extractor
    from analyst.generators.generator import ImageShape

    subject = score(architecture=architecture)
    shape = ImageShape(channels=1, height=4, width=5, num_classes=3)
    model = build_extractor(architecture, shape, 3)  # type: ignore[arg-type]
    model.load_state_dict(network(subject, scale=1.0))
    inside = [batch(list(range(8)), seed=seed) for seed in range(8)]
    expected = torch.zeros(3, dtype=torch.int64)
    for one in inside:
        with torch.no_grad():
            scores = model(one.levels_MD.reshape(-1, 1, 4, 5).float() / 8 - 1)
        best = scores.topk(2, dim=1)
        assert bool((best.values[:, 0] - best.values[:, 1] > 0.01).all())
        right = best.indices[:, 0] == one.labels_M
        expected += torch.bincount(one.labels_M[right], minlength=3)
    asked = asking(subject, weights=save(network(subject, scale=1.0)))
    assert torch.equal(counted(subject, asked, *inside), expected)
    assert 0 < int(expected.sum()) < 64
    total = score(architecture=architecture, counts="total")
    asked = asking(total, weights=save(network(total, scale=1.0)))
    assert counted(total, asked, *inside).tolist() == [int(expected.sum())]


def test_of_equal_scores_the_first_class_is_chosen() -> None:
    subject, of = score(), batch(list(range(8)))
    found = counted(subject, agreeing(subject), of)
    assert found.tolist() == [int((of.labels_M == 0).sum()), 0, 0]
    values = torch.tensor([[3.0, 1.0, 1.0], [0.0, 0.0, 0.0], [torch.inf, torch.inf, 2.0]])
    assert first_of_least(values).tolist() == [1, 0, 2]


@Architectures
def test_any_number_of_records_gives_the_same_shapes(architecture: str) -> None:
    subject = score(architecture=architecture)
    for of in ([batch([])], [batch([0])], [batch(list(range(8))), batch([0, 0, 1])]):
        state = subject.start(map(Private, of))
        _, release = subject.gradient(state, asking(subject), SeededNoise(1))
        (block,) = release.blocks
        assert isinstance(block, LatticeBlock)
        assert block.integers.shape == (3,)


def test_records_of_a_group_count_each_up_to_the_bound() -> None:
    of, more = batch([0, 0, 0, 1]), score(max_records_per_unit=3)
    of = replace(of, labels_M=torch.zeros(8, dtype=torch.int64))
    assert counted(more, agreeing(more), of).tolist() == [4, 0, 0]
    fewer = score(max_records_per_unit=2)
    assert counted(fewer, agreeing(fewer), of).tolist() == [1, 0, 0]


def test_a_record_that_breaks_does_not_take_others_along(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, subject = batch([0, 1, 2]), score()
    bad, real = inside.levels_MD[1].clone(), feature_rows

    def breaking(shape: Any, weights: Any, levels: torch.Tensor, clip: float) -> torch.Tensor:
        if bool((levels == bad).all(dim=1).any()):
            raise RuntimeError
        return real(shape, weights, levels, clip)

    rest = counted(
        subject, asking(subject), replace(inside, units_M=torch.tensor([0, -1, 2] + [-1] * 5))
    )
    monkeypatch.setattr("curator.mechanisms.score.feature_rows", breaking)
    assert torch.equal(counted(subject, asking(subject), inside), rest)


def test_a_state_is_its_records_so_that_nothing_is_lost_in_a_crash() -> None:
    subject, of = score(), batch([0, 1, 2, 3])
    state = subject.start([Private(of)])
    _, first = subject.gradient(state, asking(subject), SeededNoise(2))
    assert subject.pack(state) == {}
    _, again = subject.gradient(subject.unpack({}, [Private(of)]), asking(subject), SeededNoise(2))
    assert torch.equal(release_values(first), release_values(again))


def test_every_step_costs_a_gaussian_release() -> None:
    subject = score(max_records_per_unit=5)
    assert subject.step_event() == GaussianEvent(noise_multiplier=1.1)
    assert subject.setup_event() == NoEvent()
    needed = subject.requirements()
    assert (needed.samples, needed.max_size, needed.max_records_per_unit) == (None, 30, 5)
    assert needed.weight_bytes >= len(save(network(subject)))


@pytest.mark.parametrize(
    "changes",
    [
        {"images_ND": torch.zeros(2, 1)},
        {"images_ND": torch.zeros(3, 2)},
        {"images_ND": torch.ones(3, 1)},
        {"images_ND": torch.full((3, 1), float("nan"))},
        {"weights": b""},
        {"weights": save({})},
        {"weights": save({"hidden.weight": torch.zeros(3)})},
    ],
)
def test_a_network_that_was_not_declared_is_refused(changes: dict[str, Any]) -> None:
    subject = score()
    subject.check_samples(asking(subject))
    with pytest.raises(MalformedRequest):
        subject.check_samples(asking(subject, **changes))


@pytest.mark.parametrize(
    ("changes", "space", "words"),
    [
        ({"architecture": "lenet-features"}, {"height": 3}, "at least 4x4"),
        ({"max_size": 10**9}, {}, "too much work"),
        (
            {"noise_multiplier": 3e4, "max_records_per_unit": 1000, "max_size": 1},
            {},
            "too large for the lattice",
        ),
    ],
)
def test_absurd_runs_are_refused(changes: dict[str, Any], space: Any, words: str) -> None:
    with pytest.raises(MalformedRequest, match=words):
        Score(ScoreSpec(**(SCORE | changes)), replace(SPACE, **space))


def test_what_a_run_keeps_is_known_before() -> None:
    subject, of = score(max_size=8), batch(list(range(8)))
    state = subject.start([Private(of)])
    held = [of.levels_MD, of.labels_M, of.mask_M, of.units_M, *state.kept]
    assert sum(one.nbytes for one in held) <= subject.spec.kept_bytes(SPACE)
