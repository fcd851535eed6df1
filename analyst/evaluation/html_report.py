"""The report: one HTML file that needs nothing else, and its pictures as PNG beside it.

Needs matplotlib and jinja2.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from analyst.evaluation.charts import (
    classes_shown,
    confusion_chart,
    curve_chart,
    neighbour_grid,
    sample_grid,
    training_chart,
)
from analyst.evaluation.image_file import LabelledImages
from analyst.evaluation.result import Evaluation, Point, point_of
from analyst.evaluation.run_folder import RunFolder
from analyst.new_file import write_file

NUM_OPEN = 3  # classifiers whose tables are unfolded: those of the published protocol come first


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportInputs:
    """What a report shows beside the evaluation."""

    synthetic: LabelledImages
    public: LabelledImages | None
    run: RunFolder | None
    others: Sequence[Point]
    notes: Sequence[str]


def report_files(classifiers: Iterable[str]) -> list[str]:
    """Return the names of all files that a report may have."""
    pictures = ["samples", "neighbours", "curve", "training"]
    pictures += [f"confusion-{name}" for name in classifiers]
    return ["report.html", *(f"{name}.png" for name in pictures)]


def write_report(
    out: Path, evaluation: Evaluation, inputs: ReportInputs, *, force: bool = False
) -> Path:
    """Write report.html and its pictures."""
    own = point_of(evaluation)
    points = sorted([*inputs.others, *([own] if own else [])], key=lambda point: point.epsilon)
    pictures = _pictures(evaluation, inputs, points)
    for name, content in pictures.items():
        write_file(out / f"{name}.png", content, replace=force)
    path = out / "report.html"
    page = _page(evaluation, inputs, points, pictures)
    write_file(path, page.encode(), replace=force)
    return path


def _pictures(
    evaluation: Evaluation, inputs: ReportInputs, points: Sequence[Point]
) -> dict[str, bytes]:
    pictures: dict[str, bytes | None] = {"samples": sample_grid(inputs.synthetic)}
    assessment = evaluation.assessment
    if assessment is not None and assessment.neighbours is not None and inputs.public is not None:
        pictures["neighbours"] = neighbour_grid(
            assessment.neighbours, inputs.synthetic, inputs.public
        )
    for report in evaluation.reports:
        pictures[f"confusion-{report.classifier}"] = confusion_chart(report)
    if points:
        pictures["curve"] = curve_chart(points)
    if inputs.run is not None and inputs.run.curves is not None:
        pictures["training"] = training_chart(inputs.run.curves)
    return {name: content for name, content in pictures.items() if content is not None}


def _page(
    evaluation: Evaluation,
    inputs: ReportInputs,
    points: Sequence[Point],
    pictures: dict[str, bytes],
) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    template = environment.from_string(
        files("analyst.evaluation").joinpath("report.html").read_text(encoding="utf-8")
    )
    return template.render(
        evaluation=evaluation,
        run=inputs.run,
        notes=inputs.notes,
        points=points,
        rows_shown=classes_shown(inputs.synthetic),
        always_open=[report.classifier for report in evaluation.reports[:NUM_OPEN]],
        curve_names=list(dict.fromkeys(name for point in points for name in point.accuracies)),
        pictures={name: _data_uri(content) for name, content in pictures.items()},
    )


def _data_uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
