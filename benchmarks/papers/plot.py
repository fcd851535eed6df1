"""Accuracy by epsilon, one line a method, from the committed rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.papers.page import IMAGES
from benchmarks.papers.rows import read_rows

_DPI = 110
Lines = dict[str, dict[float, float]]


def lines_of(rows: Iterable[Mapping[str, Any]], data: str, column: str) -> Lines:
    """Return the best value at each epsilon in two digits, by method, of what a ledger charged.

    Args:
        rows: Also with points along the way.
        data: The data set.
        column: Which value.
    """
    lines: Lines = defaultdict(dict)
    for row in rows:
        if row["details"].get("data") != data or not row["method"]:
            continue
        for point in (row, *row["points"]):
            epsilon, value = point["epsilon"], point["values"].get(column)
            if epsilon is not None and value is not None:
                known, place = lines[row["method"]], float(f"{epsilon:.2g}")
                known[place] = max(known.get(place, 0.0), value)
    return dict(lines)


def write_plots() -> list[Path]:
    """Write a plot for each data set that has a point; return where."""
    rows, written = read_rows(), []
    for data in ("mnist", "fashion", "digits"):
        panels = {name: lines_of(rows, data, name) for name in ("logistic", "cnn")}
        if any(panels.values()):
            path = IMAGES / f"papers-plot-{data}.png"
            figure(data, panels).savefig(path, dpi=_DPI, metadata={"Software": None})
            written.append(path)
    return written


def figure(data: str, panels: Mapping[str, Lines]) -> Figure:
    """Return a panel a classifier."""
    made = Figure(figsize=(5.5 * len(panels), 4.2), layout="constrained")
    for axes, (name, lines) in zip(
        made.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        for method, points in sorted(lines.items()):
            epsilons = sorted(points)
            axes.plot(epsilons, [points[one] for one in epsilons], marker="o", label=method)
        axes.set_xscale("log")
        axes.set_xlabel("epsilon by the ledger")
        axes.set_ylabel(f"accuracy of {name} on real images, %")
        axes.set_title(data)
        axes.grid(alpha=0.3)
        if lines:
            axes.legend(fontsize=7)
    return made
