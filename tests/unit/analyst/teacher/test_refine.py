"""What a teacher does to labelled images: labels, and drops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from analyst.errors import CheckpointError, ImageFileError
from analyst.evaluation.image_file import LabelledImages
from analyst.generators.generator import ImageShape
from analyst.teacher.classifier import TeacherClassifier
from analyst.teacher.refine import refine
from analyst.teacher.session import Teacher

SHAPE = ImageShape(channels=1, height=1, width=2, num_classes=3)


class ByBrightness(nn.Module):
    """Sees class 0 in dark images, 1 in grey ones, 2 in light ones; sure at the ends."""

    def forward(self, images: Tensor) -> Tensor:
        mean = images.flatten(1).mean(dim=1)
        return torch.stack((-8 * mean, torch.zeros_like(mean), 8 * mean), dim=1)


BRIGHTNESS = Teacher(
    model=cast("TeacherClassifier", ByBrightness()),
    means_KR=torch.zeros(0),
    shape=SHAPE,
    run_id="run-2",
)


def data(levels: list[int], labels: list[int]) -> LabelledImages:
    images = np.array(levels, dtype=np.uint8)[:, None, None, None].repeat(2, axis=3)
    return LabelledImages(images, np.array(labels), classes=("a", "b", "c"), run_id="run-1")


def test_labels_are_the_teacher_s() -> None:
    given = data([0, 255, 255, 0], [0, 0, 2, 1])
    found = refine(given, BRIGHTNESS, how="label")
    assert found.images.labels.tolist() == [0, 2, 2, 0]
    assert found.images.labels.dtype == np.int64
    assert np.array_equal(found.images.images, given.images)
    assert (found.images.classes, found.images.run_id) == (("a", "b", "c"), "run-1")
    assert (found.num_disagreed, found.num_dropped) == (2, 0)


def test_images_are_dropped_where_it_disagrees() -> None:
    found = refine(data([0, 255, 255, 0], [0, 0, 2, 1]), BRIGHTNESS, how="drop")
    assert found.images.labels.tolist() == [0, 2]
    assert found.images.images[:, 0, 0, 0].tolist() == [0, 255]
    assert (found.num_disagreed, found.num_dropped) == (2, 2)


def test_images_of_whose_class_it_is_not_sure_are_dropped() -> None:
    given = data([0, 120, 255], [0, 1, 1])
    found = refine(given, BRIGHTNESS, how="label", least_share=0.9)
    assert found.images.labels.tolist() == [0, 2]
    assert (found.num_disagreed, found.num_dropped) == (2, 1)


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        (data([0, 255], [1, 1]), {"how": "drop"}, "no image is left"),
        (data([127, 128], [1, 1]), {"how": "label", "least_share": 0.99}, "no image is left"),
        (
            LabelledImages(np.zeros((2, 1, 3, 3), dtype=np.uint8), np.zeros(2, dtype=np.int64)),
            {"how": "label"},
            "the teacher's",
        ),
    ],
)
def test_nothing_to_write_is_an_error(
    given: LabelledImages, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ImageFileError, match=words):
        refine(given, BRIGHTNESS, **options)


def test_class_sums_teach_no_map() -> None:
    sums = replace(BRIGHTNESS, means_KR=torch.zeros(3, 8))
    with pytest.raises(CheckpointError, match="taught no map"):
        refine(data([0], [0]), sums, how="label")
