"""What a run may need of memory is bounded when it opens, and critics come a few at a time."""

from __future__ import annotations

import pytest
import torch

from curator.divergences import critic_training
from curator.divergences.critics import CriticShape, initial_critics
from curator.divergences.feature_extractors import (
    FeatureCost,
    Generated,
    OwnRecords,
    transport_gradients,
)
from curator.errors import MalformedRequest
from curator.mechanisms.gs_wgan_mean import GsWganMeanSpec
from curator.mechanisms.shard_networks import networks_of
from curator.mechanisms.teachers import TeacherSpec
from curator.privacy.batches import ImageSpace
from tests.unit.curator.mechanisms.test_gs_wgan_mean import PARAMETERS
from tests.unit.curator.mechanisms.test_teachers import TEACHERS

SPACE = ImageSpace(channels=1, height=28, width=28, max_level=255, num_classes=10)
SMALL = CriticShape(kind="conv", width=2, channels=1, height=5, pixels_per_row=5, num_classes=3)


def test_records_of_all_critics_at_once_are_bounded() -> None:
    """Tens of gigabytes for one update would end the process, and every other analyst's steps."""
    few = {"num_critics": 4096, "critic_width": 1, "critic_steps": 1, "warm_start_steps": 0}
    networks_of(GsWganMeanSpec(**(PARAMETERS | few | {"critic_batch": 100})), SPACE)
    with pytest.raises(MalformedRequest, match="critic_batch: too many images"):
        networks_of(GsWganMeanSpec(**(PARAMETERS | few | {"critic_batch": 4096})), SPACE)


def test_records_of_all_teachers_at_once_are_bounded() -> None:
    few = {"num_teachers": 4096, "teacher_width": 1, "teacher_steps": 1, "warm_start_steps": 0}
    networks_of(TeacherSpec(**(TEACHERS | few | {"teacher_batch": 100})), SPACE)
    with pytest.raises(MalformedRequest, match="teacher_batch: too many images"):
        networks_of(TeacherSpec(**(TEACHERS | few | {"teacher_batch": 4096})), SPACE)


def test_extractors_come_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("score", "classes")
    extractors = {n: v for n, v in initial_critics(SMALL, 6, 1).items() if n not in names}
    drawn = torch.Generator().manual_seed(0)
    records = OwnRecords(
        pixels_KMD=torch.rand((6, 3, 25), generator=drawn),
        labels_KM=torch.zeros((6, 3), dtype=torch.int64),
        mask_KM=torch.ones((6, 3), dtype=torch.bool),
    )
    generated = Generated(
        images_ND=torch.rand((4, 25), generator=drawn),
        labels_N=torch.zeros(4, dtype=torch.int64),
        num_samples=3,
    )
    cost = FeatureCost(label_scale=1.0, feature_scale=1.0, temperatures=(1.0, 0.5))

    def parts() -> list[torch.Tensor]:
        return list(transport_gradients(SMALL, cost, extractors, (records, generated)))

    whole = torch.cat(parts())
    monkeypatch.setitem(critic_training._BYTES_AT_ONCE, "cpu", 4 * 40 * SMALL.activations)
    assert [len(part) for part in parts()] == [2, 2, 2]
    torch.testing.assert_close(torch.cat(parts()), whole)
