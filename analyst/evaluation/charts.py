"""Charts and grids of a report, as PNG bytes. Needs matplotlib.

Figures are made directly, never through pyplot: no global state, no display.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from analyst.evaluation.classifier import PAPER_CLASSIFIERS, Report
from analyst.evaluation.image_file import LabelledImages
from analyst.evaluation.neighbours import NeighbourCheck
from analyst.evaluation.result import Point
from analyst.evaluation.run_folder import TrainingCurves
from analyst.training.grid import is_drawable, make_grid

_MOST_CLASSES = 20
_IMAGES_PER_CLASS = 10
_MOST_NUMBERED = 12  # classes up to which the cells of a confusion matrix carry numbers
_LONG_NAME = 3
_DPI = 110


def classes_shown(data: LabelledImages) -> list[str]:
    """Return the names of the rows of `sample_grid`: the first 20."""
    return [data.name_of(label) for label in _labels_shown(data)]


def sample_grid(data: LabelledImages) -> bytes | None:
    """Return the first 10 images of each shown class, a row each; None if they have no colours."""
    if not is_drawable(data.images.shape[1]):
        return None
    rows = []
    for label in _labels_shown(data):
        of_class = data.images[data.labels == label][:_IMAGES_PER_CLASS]
        missing = _IMAGES_PER_CLASS - len(of_class)
        blank = np.zeros((missing, *of_class.shape[1:]), np.uint8)
        rows.append(np.concatenate([of_class, blank]))
    return _grid(np.concatenate(rows), _IMAGES_PER_CLASS)


def neighbour_grid(
    check: NeighbourCheck, synthetic: LabelledImages, public: LabelledImages
) -> bytes | None:
    """Return the closest synthetic images above their public neighbours; None without colours."""
    if not is_drawable(synthetic.images.shape[1]):
        return None
    above, below = (list(rows) for rows in zip(*check.closest, strict=True))
    pairs = np.concatenate([synthetic.images[above], public.images[below]])
    return _grid(pairs, len(above))


def confusion_chart(report: Report) -> bytes:
    """Return the confusion matrix as percentages of each true class."""
    counts = np.array(report.confusion, dtype=np.float64)
    percent = 100 * counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    figure = Figure(figsize=(4.6, 4.2), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(percent, cmap="Blues", vmin=0, vmax=100)
    ticks = range(0, len(report.labels), max(1, len(report.labels) // _MOST_CLASSES))
    names = [report.names[tick].replace("$", r"\$") for tick in ticks]  # no formulas
    axes.set_xticks(ticks, names, rotation=90 if max(map(len, names)) > _LONG_NAME else 0)
    axes.set_yticks(ticks, names)
    axes.set_xlabel("predicted label")
    axes.set_ylabel("true label")
    axes.set_title(f"{report.classifier}: {100 * report.accuracy:.1f}%")
    if len(report.labels) <= _MOST_NUMBERED:
        for row, column in np.ndindex(percent.shape):
            value = percent[row, column]
            if value >= 0.5:
                ink = "white" if value > 60 else "black"
                axes.text(column, row, f"{value:.0f}", ha="center", va="center", c=ink, size=8)
    figure.colorbar(image, ax=axes, shrink=0.8, label="% of true class")
    return _png(figure)


def curve_chart(points: Sequence[Point]) -> bytes:
    """Return accuracy over epsilon, a line per classifier of the published protocol.

    Args:
        points: Evaluations whose cost is known, at least 1.
    """
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    ordered = sorted(points, key=lambda point: point.epsilon)
    for name in PAPER_CLASSIFIERS:
        known = [point for point in ordered if name in point.accuracies]
        axes.plot(
            [point.epsilon for point in known],
            [100 * point.accuracies[name] for point in known],
            marker="o",
            label=name,
        )
    epsilons = sorted({point.epsilon for point in ordered})
    if epsilons[0] > 0:
        axes.set_xscale("log")
        axes.set_xticks(epsilons, [f"{epsilon:.3g}" for epsilon in epsilons])
        axes.minorticks_off()
    axes.set_xlabel("epsilon spent on the data set when the run closed")
    axes.set_ylabel("accuracy on real images, %")
    axes.grid(alpha=0.3)
    axes.legend()
    return _png(figure)


def training_chart(curves: TrainingCurves) -> bytes:
    """Return the norm of the released gradient and the spent epsilon over the steps."""
    figure = Figure(figsize=(7.0, 4.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(curves.steps, curves.gradient_norms, lw=1)
    if 0 < 10 * min(curves.gradient_norms) < max(curves.gradient_norms):
        above.set_yscale("log")
    above.set_ylabel("gradient norm")
    below.plot(curves.steps, curves.spent_epsilons, lw=1, c="tab:red")
    below.set_ylim(bottom=0)
    below.set_ylabel("spent epsilon")
    below.set_xlabel("step")
    for axes in (above, below):
        axes.grid(alpha=0.3)
    return _png(figure)


def _grid(pixels: np.ndarray, columns: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(make_grid(pixels, columns)).save(stream, format="PNG")
    return stream.getvalue()


def _png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=_DPI, metadata={"Software": None})
    return stream.getvalue()


def _labels_shown(data: LabelledImages) -> list[int]:
    labels: list[int] = np.unique(data.labels)[:_MOST_CLASSES].tolist()
    return labels
