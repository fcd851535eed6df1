"""Brute force over neighbouring data sets: a unit moves one critic, the release by its bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.mechanisms.gs_wgan_mean import GsWganMean, GsWganMeanSpec
from curator.mechanisms.shard_networks import NetworkState
from curator.privacy.batches import ImageSpace, Samples
from curator.privacy.release import LatticeBlock
from curator.sanitizer.averaged import FINE_STD
from tests.fakes.noise import NoNoise

SPACE = ImageSpace(channels=1, height=2, width=2, max_level=3, num_classes=2)
Z, K, STEPS = 1.1, 4, 2
PARAMETERS: dict[str, Any] = {
    "num_critics": K,
    "num_samples": 3,
    "clip_norm": 0.5,
    "noise_multiplier": Z,
    "critic_width": 4,
    "critic_batch": 3,
    "critic_steps": 2,
    "warm_start_steps": 2,
    "critic_learning_rate": 0.3,  # critics that move a lot
    "gradient_penalty": 1.0,
}
Person = list[tuple[list[int], int]]
person_strategy = st.lists(
    st.tuples(st.lists(st.integers(0, 3), min_size=4, max_size=4), st.integers(0, 1)),
    min_size=1,
    max_size=3,
)
people_strategy = st.lists(person_strategy, max_size=8)


def private(people: list[Person]) -> PrivateRecords:
    """Return the records of several people, kept side by side."""
    rows = [record for person in people for record in person]
    levels = np.array([levels for levels, _ in rows], dtype=np.uint8).reshape(-1, 1, 2, 2)
    owners = [number for number, person in enumerate(people) for _ in person]
    return PrivateRecords(
        LabelledImages(
            levels=levels,
            labels=np.array([label for _, label in rows], dtype=np.int64),
            groups=np.array(owners, dtype=np.int64),
            max_per_group=3,
        ),
        12,
    )


def transcript(subject: GsWganMean, people: list[Person], rows: int) -> list[Any]:
    """Return the state and the integers of each step, on samples that do not depend on them."""
    state: NetworkState = subject.start(private(people).batches(rows))
    found = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step)
        images = torch.rand(3, 4, generator=generator) * 2 - 1
        samples = Samples(images_ND=images, labels_N=torch.tensor([0, 1, 0]))
        state, release = subject.gradient(state, samples, NoNoise())
        (block,) = release.blocks
        assert isinstance(block, LatticeBlock)
        found.append((state, block.integers))
    return found


def changed_critics(first: NetworkState, second: NetworkState) -> set[int]:
    pairs = [(first.ensemble.critics, second.ensemble.critics)]
    pairs.append((first.ensemble.means, second.ensemble.means))
    pairs.append((first.ensemble.squares, second.ensemble.squares))
    changed = {
        k
        for one, other in pairs
        for name in one
        for k in range(K)
        if not torch.equal(one[name][k], other[name][k])
    }
    counts = first.shards.counts_K != second.shards.counts_K
    return changed | set(counts.nonzero()[:, 0].tolist())


@settings(deadline=None, max_examples=20)
@given(
    people=people_strategy,
    extra=person_strategy,
    capacity=st.integers(1, 4),
    critic=st.sampled_from(["mlp", "conv"]),
)
def test_one_unit_moves_one_critic_and_the_average_by_two_clip_norms(
    people: list[Person], extra: Person, capacity: int, critic: str
) -> None:
    changes = {"shard_capacity": capacity, "critic": critic, "critic_seed": capacity}
    spec = GsWganMeanSpec(**(PARAMETERS | changes))
    subject = GsWganMean(spec, SPACE)
    base = transcript(subject, people, 4)
    neighbours = [[*people[:1], extra, *people[1:]]]  # in the middle: later ones are stored later
    if people:
        neighbours.append(people[1:])
    for neighbour in neighbours:
        touched: set[int] = set()
        for (state, integers), (other, moved) in zip(
            base, transcript(subject, neighbour, 5), strict=True
        ):
            touched |= changed_critics(state, other)
            assert len(touched) <= 1
            squared = int((integers - moved).square().sum())
            assert (2 * Z) ** 2 * squared <= (2 * FINE_STD) ** 2
            if not touched:
                assert squared == 0


def test_the_bound_is_met_by_critics_that_turn_around() -> None:
    """One record or none: the empty shard says nothing, the other all that it may."""
    spec = GsWganMeanSpec(
        **(PARAMETERS | {"clip_norm": 1e-6}), shard_capacity=4, critic="mlp", critic_seed=1
    )
    subject = GsWganMean(spec, SPACE)
    norms = []
    for people in ([], [[([0, 1, 2, 3], 0)]]):
        (_, integers), *_ = transcript(subject, people, 3)
        norms.append(float(integers.double().norm()))
    assert norms[0] == 0
    assert 0.999 < 2 * Z * norms[1] / FINE_STD <= 1


def test_shards_by_position_would_be_noticed() -> None:
    """Cut into slices instead, and one unit at the front moves every critic."""
    spec = GsWganMeanSpec(**PARAMETERS, shard_capacity=4, critic="mlp", critic_seed=1)
    subject = GsWganMean(spec, SPACE)

    def sliced(count: int, skipped: int) -> NetworkState:
        kept = torch.arange(skipped, count)
        state = subject.start(private([]).batches(3))
        shards = state.shards
        for number, value in enumerate(kept.tolist()):
            k, place = divmod(number, 4)
            shards.levels_KPD[k, place] = value % 4
            shards.counts_K[k] = place + 1
        return state

    samples = Samples(images_ND=torch.zeros(3, 4), labels_N=torch.zeros(3, dtype=torch.int64))
    ends: list[NetworkState] = []
    sums: list[Tensor] = []
    for skipped in (0, 1):
        state, release = subject.gradient(sliced(16, skipped), samples, NoNoise())
        ends.append(state)
        sums.append(release.blocks[0].integers)  # type: ignore[union-attr]
    assert len(changed_critics(*ends)) > 1
