"""Cells without a generator: classifiers that learn on the real training images. Not private."""

from __future__ import annotations

import time

from analyst.evaluation.image_file import LabelledImages
from benchmarks.papers.data import read_data, visible
from benchmarks.papers.measure import measure
from benchmarks.papers.rows import Measured
from benchmarks.papers.work import Work


def make(work: Work) -> Measured:
    """Measure real images as if they were synthetic."""
    started = time.monotonic()
    data = read_data(work.settings["data"], work.data, size=work.settings.get("size"))
    shown = visible(data, data.private)
    count = work.settings["count"]
    real = LabelledImages(shown.images[:count], shown.labels[:count])
    values = measure(work, real, visible(data, data.test))
    return Measured(
        values=values,
        seconds=round(time.monotonic() - started, 1),
        true_epsilon="infinite",
        details={"data": work.settings["data"]},
    )
