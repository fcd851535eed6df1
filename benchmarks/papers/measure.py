"""What is measured of synthetic images: classifiers, distances, a grid; each part kept when done.

Classifiers learn on the synthetic images only, and the real test set chooses nothing. Frechet
distance and inception score of small grey images are by a LeNet that learned on every other image
of the public test set, always from the same seed, so that cells of one data set are comparable:
with each other, not with the numbers that papers print.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from analyst.evaluation.assess import assess
from analyst.evaluation.charts import sample_grid
from analyst.evaluation.choices import PAPER_CLASSIFIERS, SUITE_CLASSIFIERS, Classifier
from analyst.evaluation.classifier import evaluate
from analyst.evaluation.image_file import LabelledImages
from benchmarks.papers.work import Work

_MIDDLE = 127.5
_ALL = {"papers": PAPER_CLASSIFIERS, "gs-wgan": SUITE_CLASSIFIERS}


def measure(work: Work, synthetic: LabelledImages, test: LabelledImages) -> dict[str, float | None]:
    """Return the values of a row: accuracies in percent, distances, scores.

    Args:
        work: Its settings name `classifiers` (a list, or 'papers' or 'gs-wgan') and whether
            `distances` are measured.
        synthetic: Generated images.
        test: Public real images.
    """
    chosen = work.settings.get("classifiers", "papers")
    names: tuple[Classifier, ...] = _ALL[chosen] if isinstance(chosen, str) else tuple(chosen)
    values: dict[str, float | None] = {}
    for name in names:
        path = work.folder / f"accuracy-{name}.json"
        values[name] = kept(path, partial(_accuracy, work, synthetic, test, name))
    known = [value for value in values.values() if value is not None]
    if chosen == "gs-wgan":
        values["mean"] = round(statistics.mean(known), 2)
    if "flipped" in work.settings or "curators" in work.settings:
        bright = synthetic.images.mean(axis=(1, 2, 3)) > _MIDDLE
        values["inverted"] = round(100 * float(bright.mean()), 2)
    if work.settings.get("distances", True):
        values |= kept(work.folder / "distances.json", lambda: _distances(work, synthetic, test))
    return values


def kept(path: Path, make: Callable[[], Any]) -> Any:
    """Return what a file holds, or make it and keep it; a work that is killed loses the part."""
    if path.exists():
        return json.loads(path.read_bytes())
    made = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".partial")
    fresh.write_text(json.dumps(made), encoding="utf-8")
    fresh.replace(path)
    return made


def write_grid(path: Path, synthetic: LabelledImages) -> None:
    """Write the first ten images of each class."""
    grid = sample_grid(synthetic)
    if grid is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(grid)


def _accuracy(
    work: Work, synthetic: LabelledImages, test: LabelledImages, name: Classifier
) -> float:
    work.left()
    report = evaluate(synthetic, test, name, seed=work.seed, device=work.device)
    return round(100 * report.accuracy, 2)


def _distances(work: Work, synthetic: LabelledImages, test: LabelledImages) -> dict[str, Any]:
    work.left()
    found = assess(synthetic, test, None, device=work.device)
    values = {"density": found.coverage.density, "coverage": found.coverage.coverage}
    if found.lenet is not None:
        values |= {"fid": found.lenet.distance, "inception_score": found.lenet.score}
    return {name: round(float(value), 3) for name, value in values.items()}
