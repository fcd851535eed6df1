"""Teachers: one a shard, on a public schedule, each of them for itself."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences.adam import Ensemble
from curator.divergences.device import compute_device
from curator.errors import MalformedRequest
from curator.mechanisms.shard_networks import NetworkState, ShardNetworks, networks_of, silent
from curator.mechanisms.teachers import TeacherSpec
from curator.privacy.batches import ImageSpace

SPACE = ImageSpace(channels=1, height=2, width=3, max_level=16, num_classes=3)
TEACHERS: dict[str, Any] = {
    "num_teachers": 5,
    "shard_capacity": 16,
    "num_samples": 4,
    "noise_multiplier": 1.1,
    "teacher": "mlp",
    "teacher_width": 8,
    "teacher_seed": 1,
    "teacher_batch": 6,
    "teacher_steps": 2,
    "warm_start_steps": 3,
    "teacher_learning_rate": 0.01,
    "gradient_penalty": 10.0,
}


def spec(**changes: object) -> TeacherSpec:
    return TeacherSpec(**(TEACHERS | changes))


def teachers(**changes: object) -> ShardNetworks:
    return networks_of(spec(**changes), SPACE)


def trained(subject: ShardNetworks, state: NetworkState, seed: int = 0) -> NetworkState:
    return subject.trained(state, spec(), (images(seed), onehot()))


def records(count: int = 30) -> PrivateRecords:
    levels = np.random.default_rng(2).integers(0, 17, (count, 1, 2, 3), dtype=np.uint8)
    return PrivateRecords(LabelledImages(levels=levels, labels=np.arange(count) % 3), 40)


def images(seed: int = 0) -> Tensor:
    drawn = torch.rand(4, 6, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return drawn.to(compute_device())


def onehot() -> Tensor:
    return torch.eye(3, device=compute_device())[torch.arange(4) % 3]


def equal(first: Ensemble, second: Ensemble, rows: list[int]) -> bool:
    parts = ((getattr(one, part) for one in (first, second)) for part in ("critics", "squares"))
    return all(torch.equal(a[name][rows], b[name][rows]) for a, b in parts for name in a)


def test_the_first_step_warms_up() -> None:
    subject = teachers()
    taught = subject.start(records().batches(8))
    updates = []
    for _ in range(3):
        taught = trained(subject, taught)
        updates.append(taught.ensemble.num_updates)
    assert updates == [5, 7, 9]


def test_a_lesson_shows_records_of_the_own_shard() -> None:
    subject = teachers(num_teachers=3)
    state = subject.start(records().batches(8))
    shards, shown = state.shards, (images(), onehot())
    batch = subject.minibatch(state, "update|7", 6, shown)
    assert batch.records_KRD.shape == (3, 6, 6)
    for k in range(3):
        own = shards.levels_KPD[k, : int(shards.counts_K[k])].float() / 8 - 1
        for row, label in zip(batch.records_KRD[k], batch.record_labels_KRL[k], strict=True):
            (place,) = (own == row).all(dim=1).nonzero()[:, 0].tolist()
            assert int(label.argmax()) == int(shards.labels_KP[k, place])
    again = subject.minibatch(state, "update|8", 6, shown)
    assert not torch.equal(again.records_KRD, batch.records_KRD)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e30])
def test_a_teacher_that_breaks_does_not_take_others_along(value: float) -> None:
    subject = teachers(num_teachers=3)
    taught = trained(subject, subject.start(records().batches(8)))
    broken = {name: rows.clone() for name, rows in taught.ensemble.critics.items()}
    broken["weight0"][1] = value
    ensemble = Ensemble(
        critics=broken,
        means=taught.ensemble.means,
        squares=taught.ensemble.squares,
        num_updates=taught.ensemble.num_updates,
    )
    sound = trained(subject, taught, 1)
    after = trained(subject, replace(taught, ensemble=ensemble), 1)
    assert equal(sound.ensemble, after.ensemble, [0, 2])


def test_what_is_packed_goes_on_as_if_nothing_had_happened() -> None:
    subject = teachers()
    taught = trained(subject, subject.start(records().batches(8)))
    back = subject.unpack(subject.pack(taught), records().batches(11))
    ends = [trained(subject, one, 1) for one in (taught, back)]
    assert equal(ends[0].ensemble, ends[1].ensemble, list(range(5)))
    assert ends[0].ensemble.num_updates == ends[1].ensemble.num_updates
    assert not any("levels" in name for name in subject.pack(taught))


def test_an_empty_shard_is_silent() -> None:
    subject = teachers()
    taught = subject.start(records(1).batches(8))
    said = torch.ones(3, 4, dtype=torch.bool)
    found = torch.cat((silent(taught.shards, said, 0), silent(taught.shards, said[:2], 3)))
    assert found.shape == (5, 1)
    assert torch.equal(found[:, 0].cpu(), taught.shards.counts_K == 0)
    assert int(found.sum()) == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"num_teachers": 4096, "shard_capacity": 1 << 16},
        {"num_teachers": 4096, "teacher_width": 1024},
        {"num_teachers": 4096, "teacher_steps": 100, "teacher_batch": 4096, "teacher_width": 100},
        {
            "num_teachers": 4096,
            "warm_start_steps": 10_000,
            "teacher_batch": 200,
            "teacher_width": 100,
        },
    ],
)
def test_sizes_that_are_absurd_together_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedRequest, match="too m"):
        teachers(**changes)


def test_steps_of_too_many_coordinates_are_refused() -> None:
    space = ImageSpace(channels=1, height=256, width=256, max_level=16, num_classes=3)
    many = spec(num_samples=300, teacher_width=1)
    with pytest.raises(MalformedRequest, match="num_samples: too many images"):
        networks_of(many, space)
