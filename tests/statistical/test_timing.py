"""The time of an answer does not tell what the private batch held.

Private sets of one size (batches equal to the generated images, near, far, empty, and full; for
mechanisms that ask every record, sets whose records choose one option, all of them, or none) are
asked the same steps, in an order drawn at random, so that whatever else the machine does falls
on all alike. Every pair is compared by a two-sample Kolmogorov-Smirnov test; a family
alarms falsely with probability 1e-6. A planted data-dependent schedule must be told apart.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save
from scipy.stats import ks_2samp

from curator.data.binomial import draw_count
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences import backend
from curator.divergences.backend import Backend, choose_backend
from curator.mechanisms import record_choices
from curator.mechanisms.dp_sinkhorn import DpSinkhorn, DpSinkhornSpec
from curator.mechanisms.record_choices import ChoiceMechanism
from curator.mechanisms.score import Score, ScoreSpec
from curator.mechanisms.votes import Votes, VotesSpec
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.noise import NoiseSource
from curator.sanitizer import choices, clipped
from curator.sanitizer.entropy import OsEntropy
from curator.state.asking import private_batches

pytestmark = pytest.mark.statistical

FAMILY_ERROR = 1e-6


@pytest.fixture(autouse=True)
def subnormals_are_flushed() -> Iterator[None]:
    """As in the curator's compute threads; other tests need subnormal numbers."""
    torch.set_flush_denormal(True)
    yield
    torch.set_flush_denormal(False)


SPACE = ImageSpace(channels=1, height=8, width=8, max_level=16, num_classes=10)
ROWS, CAPACITY, COPIES = 40, 96, 8
LABELS = torch.arange(ROWS) % 10
_MORE_THAN_CACHES = 1 << 22  # bytes


def spec() -> DpSinkhornSpec:
    return DpSinkhornSpec(
        sampling_rate=0.5,
        capacity=CAPACITY,
        num_samples=ROWS,
        num_debias=0,
        clip_norm=0.5,
        noise_multiplier=1.0,
        reg=0.05,
        l1_weight=1.0,
        label_scale=15.0,
        schedule="published",
    )


def levels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 17, size=(ROWS, 1, 8, 8), dtype=np.uint8)


def private_sets() -> dict[str, np.ndarray]:
    """Levels of sets of one size whose private batches could not differ more."""
    equal = levels()
    near = np.clip(equal.astype(int) + 1, 0, 16).astype(np.uint8)
    far = (16 - equal).astype(np.uint8)
    made = {"equal": equal, "near": near, "far": far, "empty": far, "full": far}
    return {name: np.concatenate([images] * COPIES) for name, images in made.items()}


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Let the count be drawn as always, and replace it for the sets of empty and full batches."""
    asked = {"name": ""}
    counts = {"empty": 0, "full": ROWS * COPIES}

    def draw(num_units: int, rate: SamplingRate, noise: NoiseSource, max_units: int) -> int:
        count = draw_count(num_units, rate, noise, max_units)
        return counts.get(asked["name"], count)

    monkeypatch.setattr("curator.data.sampling.draw_count", draw)
    return asked


def times(calls: int, asked: dict[str, str]) -> dict[str, np.ndarray]:
    """Return the seconds of that many answers for each set, asked in a random order.

    All sets take turns in one place of memory, as two places differ in time whatever is in them.
    """
    mechanism, noise, sets = DpSinkhorn(spec(), SPACE), OsEntropy(), private_sets()
    held = np.zeros_like(sets["equal"])
    labels = np.tile(LABELS.numpy(), COPIES).astype(np.int64)
    records = PrivateRecords(LabelledImages(levels=held, labels=labels))

    def put(name: str) -> None:
        asked["name"] = name
        held[...] = sets[name]

    def answer() -> None:
        batch = records.poisson_batch(mechanism.spec.rate, CAPACITY, noise)
        mechanism.gradient(samples(), batch, noise)

    return in_random_order(list(sets), put, answer, calls)


def samples() -> Samples:
    """Return the generated images, those of the set of equal ones."""
    images = torch.from_numpy(levels().reshape(ROWS, -1)).float() / 8 - 1
    return Samples(images_ND=images, labels_N=LABELS)


def in_random_order(
    names: list[str], put: Callable[[str], None], answer: Callable[[], object], calls: int
) -> dict[str, np.ndarray]:
    """Return the seconds of that many answers for each set, after a few that are not counted.

    Between putting a set in its place and asking, more is read than near caches hold: what a set is
    copied from is not the same memory for each, and would leave them in different states.
    """
    torch.set_num_threads(1)
    others = np.zeros(_MORE_THAN_CACHES, dtype=np.uint8)
    order = [name for name in names for _ in range(calls)]
    random.SystemRandom().shuffle(order)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for name in [*names * 5, *order]:
        put(name)
        others.sum()
        started = time.perf_counter()
        answer()
        seconds[name].append(time.perf_counter() - started)
    return {name: np.array(values[5:]) for name, values in seconds.items()}


def smallest_p(measured: dict[str, np.ndarray]) -> tuple[float, str]:
    """Return the smallest p-value over all pairs, multiplied by their number, and the pair."""
    pairs = list(itertools.combinations(measured, 2))
    found = [(float(ks_2samp(measured[a], measured[b]).pvalue), f"{a}/{b}") for a, b in pairs]
    p, pair = min(found)
    return min(1.0, p * len(pairs)), pair


@pytest.mark.parametrize(("body", "calls"), [(Backend.TORCH, 1_000), (Backend.NUMBA, 2_000)])
def test_response_times_cannot_be_told_apart(
    forced: dict[str, str], body: Backend, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of both bodies: a curator serves with the compiled one where there is numba.

    So many answers tell distributions apart that are 0.09 apart somewhere, half as many 0.13.
    """
    monkeypatch.setattr(backend, "_chosen", {})
    choose_backend(body)
    p, pair = smallest_p(times(calls, forced))
    assert p > FAMILY_ERROR, pair


def test_a_set_that_takes_its_turn_is_what_is_sampled(forced: dict[str, str]) -> None:
    """The sets' levels are read where they are put, so that times are of these sets."""
    held = np.zeros((ROWS * COPIES, 1, 8, 8), np.uint8)
    labels = np.tile(LABELS.numpy(), COPIES).astype(np.int64)
    records = PrivateRecords(LabelledImages(levels=held, labels=labels))
    forced["name"] = "full"
    for level in (3, 11):
        held[...] = level
        batch = records.poisson_batch(spec().rate, CAPACITY, OsEntropy()).unseal()
        assert set(batch.levels_MD[batch.mask_M].flatten().tolist()) == {level}


def test_a_data_dependent_schedule_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, forced: dict[str, str]
) -> None:
    """The planted fault: an empty batch is not worth the computation."""
    real = DpSinkhorn.gradient

    def hurried(self: DpSinkhorn, samples: Samples, records: Any, noise: Any) -> Any:
        if bool(records.unseal().mask_M.any()):
            return real(self, samples, records, noise)
        return clipped.release_clipped(
            lambda: torch.zeros(ROWS, SPACE.dimension),
            shape=(ROWS, SPACE.dimension),
            clip_norm=self.spec.clip_norm,
            noise_multiplier=self.spec.noise_multiplier,
            noise=noise,
        )

    monkeypatch.setattr(DpSinkhorn, "gradient", hurried)
    p, pair = smallest_p(times(300, forced))
    assert p < FAMILY_ERROR
    assert "empty" in pair


def choice_mechanisms() -> list[ChoiceMechanism]:
    bounds: dict[str, Any] = {
        "noise_multiplier": 3.0,
        "max_size": ROWS * COPIES,
        "max_records_per_unit": 1,
    }
    votes = VotesSpec(**bounds, num_candidates=ROWS, images_per_candidate=1, features="pixels")
    score = ScoreSpec(**bounds, architecture="mlp-features", counts="by-class")
    return [Votes(votes, SPACE), Score(score, SPACE)]


def asked_of(mechanism: ChoiceMechanism) -> Samples:
    if not isinstance(mechanism, Score):
        return samples()
    draws = torch.Generator().manual_seed(0)
    sizes = mechanism.shape.sizes.items()
    weights = {name: torch.randn(size, generator=draws) for name, size in sizes}
    images = torch.zeros((mechanism.num_options, 1))
    labels = torch.zeros(len(images), dtype=torch.int64)
    return Samples(images_ND=images, labels_N=labels, weights=save(weights))


def choice_times(mechanism: ChoiceMechanism, calls: int) -> dict[str, np.ndarray]:
    """Return the seconds of answers of sets whose records choose as differently as can be.

    In two of them all records are alike: all of one class, or of the class that has no candidate;
    in another no row is a record.
    """
    sets, noise = private_sets(), OsEntropy()
    labels = np.tile(LABELS.numpy(), COPIES).astype(np.int64)
    records = PrivateRecords(LabelledImages(levels=sets["equal"], labels=labels), len(labels))
    state = mechanism.start(private_batches(mechanism, records, noise))
    (held,) = (sealed.unseal() for sealed in state.batches)
    masks = held.mask_M.clone()
    of_sets = {name: torch.from_numpy(one.reshape(len(one), -1)) for name, one in sets.items()}
    one = of_sets["equal"][:1].repeat(len(labels), 1)  # of its own memory, as the others
    ways = {
        "equal": (of_sets["equal"], torch.from_numpy(labels), masks),
        "far": (of_sets["far"], torch.from_numpy(labels), masks),
        "one option": (one, torch.zeros(len(labels), dtype=torch.int64), masks),
        "empty": (of_sets["far"], torch.from_numpy(labels), torch.zeros_like(masks)),
    }
    asked = asked_of(mechanism)

    def put(name: str) -> None:
        levels_MD, labels_M, mask_M = ways[name]
        held.levels_MD[: len(levels_MD)] = levels_MD
        held.labels_M[: len(labels_M)] = labels_M
        held.mask_M[:] = mask_M

    return in_random_order(list(ways), put, lambda: mechanism.gradient(state, asked, noise), calls)


@pytest.mark.parametrize("mechanism", choice_mechanisms(), ids=lambda one: one.name)
def test_of_records_that_choose_the_times_cannot_be_told_apart(mechanism: ChoiceMechanism) -> None:
    """So many answers tell distributions apart that are 0.16 apart somewhere."""
    p, pair = smallest_p(choice_times(mechanism, 600))
    assert p > FAMILY_ERROR, pair


def test_records_that_are_counted_only_where_they_are_some_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted fault: choices are made for rows that are records only."""
    real = choices.choices_of

    def hurried(choose: Any, rows: Any) -> torch.Tensor:
        (batch,) = kept
        return real(choose, rows) if bool(batch.mask_M.any()) else torch.full((ROWS * COPIES,), -1)

    kept: list[Any] = []
    mechanism = choice_mechanisms()[0]
    start = mechanism.start

    def starting(batches: Any) -> Any:
        state = start(batches)
        kept.extend(sealed.unseal() for sealed in state.batches)
        return state

    monkeypatch.setattr(mechanism, "start", starting)
    monkeypatch.setattr(record_choices, "choices_of", hurried)
    p, pair = smallest_p(choice_times(mechanism, 300))
    assert p < FAMILY_ERROR
    assert "empty" in pair
