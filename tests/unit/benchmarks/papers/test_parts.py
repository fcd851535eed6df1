"""Curators of one cell share a data set: each has every label's name, and labels in no order."""

from __future__ import annotations

import numpy as np

from analyst.evaluation.image_file import LabelledImages
from benchmarks.papers.data import DataSet
from benchmarks.papers.trained import part_of


def test_parts_declare_all_classes_and_hold_each_record_once() -> None:
    count, num_classes = 400, 10
    pixels = np.arange(count * 4, dtype=np.uint16).astype(np.uint8).reshape(count, 1, 2, 2)
    data = LabelledImages(pixels, np.arange(count) % num_classes)
    whole = DataSet(private=data, test=data, nominal_size=count, max_size=count)
    parts = [part_of(whole, number, 4) for number in range(4)]
    assert {part.num_classes for part in parts} == {num_classes}
    assert all(len(set(part.private.labels.tolist())) == num_classes for part in parts)
    joined = np.concatenate([part.private.labels for part in parts])
    assert np.bincount(joined).tolist() == [count // num_classes] * num_classes
    assert part_of(whole, 0, 1) is whole
