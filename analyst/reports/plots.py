"""A plan as a picture: bars of characters in a terminal, or a file that matplotlib draws."""

from __future__ import annotations

import html
import io
from pathlib import Path
from typing import Final

from analyst.errors import EvaluationError, ImageFileError
from analyst.evaluation.choices import EXTRA
from analyst.new_file import check_output, write_file
from analyst.rehearsal import is_rehearsal
from analyst.reports.plans import PlanReport

_FORMATS: Final = (".png", ".svg", ".pdf", ".html")
_WIDTH: Final = 50
_LABELS: Final = {
    "noise_multiplier": "noise multiplier",
    "num_steps": "steps",
    "epsilon_after": "epsilon in total afterwards",
}


def check_plot_file(path: Path, *, force: bool) -> None:
    """Check that a plot can be drawn, before anything is asked.

    Raises:
        ImageFileError: If the name is of no known format.
        EvaluationError: If matplotlib is not installed.
    """
    if path.suffix not in _FORMATS:
        message = f"cannot draw {path}"
        raise ImageFileError(message, f"Give a name that ends in {', '.join(_FORMATS)}.")
    check_output(path, force=force)
    try:
        import matplotlib as mpl
    except ImportError:
        message = "a plot in a file needs matplotlib, which is not installed"
        raise EvaluationError(message, f"{EXTRA} Or leave FILE out for a plot as text.") from None
    del mpl


def plot_plan(report: PlanReport, target: str, *, force: bool = False) -> str:
    """Draw a plan's table.

    Args:
        report: The plan.
        target: '-' for text, else a file.
        force: Whether a file that exists is replaced.
    """
    if target == "-":
        return _as_text(report)
    path = Path(target)
    html_page = path.suffix == ".html"
    content = _as_html(report).encode() if html_page else _drawn(report, path.suffix[1:])
    write_file(path, content, replace=force)
    return f"wrote {path}"


def _axes(report: PlanReport) -> tuple[str, str]:
    """Return what goes to the right and what goes up."""
    match report.question.over:
        case "steps":
            return "num_steps", "epsilon_after"
        case "epsilon":
            return "epsilon_after", "num_steps" if report.pays_per_step else "noise_multiplier"
        case "noise":
            asked = report.question.num_steps is not None
            return "noise_multiplier", "epsilon_after" if asked else "num_steps"


def _as_text(report: PlanReport) -> str:
    across, up = _axes(report)
    points = report.plan.points
    heights = [getattr(point, up) for point in points]
    top = max([*heights, 0.0]) or 1.0
    lines = ["", f"{_LABELS[up]} by {_LABELS[across]}"]
    for point, height in zip(points, heights, strict=True):
        mark = "#" if point.fits else "x"
        bar = mark * round(_WIDTH * height / top)
        lines.append(f"{getattr(point, across):>14,.6g} |{bar:<{_WIDTH}} {height:,.6g}")
    if not all(point.fits for point in points):
        lines.append("x: does not fit")
    return "\n".join(lines)


def _drawn(report: PlanReport, file_format: str) -> bytes:
    from matplotlib.figure import Figure  # never pyplot: no global state, no display

    across, up = _axes(report)
    points = report.plan.points
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    xs = [getattr(point, across) for point in points]
    ys = [getattr(point, up) for point in points]
    axes.plot(xs, ys, color="tab:blue", zorder=1)
    for fits, colour, words in ((True, "tab:blue", "fits"), (False, "tab:red", "does not fit")):
        chosen = [(x, y) for x, y, p in zip(xs, ys, points, strict=True) if p.fits is fits]
        if chosen:
            axes.scatter(*zip(*chosen, strict=True), color=colour, label=words, zorder=2)
    if up == "epsilon_after" and not is_rehearsal(report.facts.name):
        axes.axhline(report.facts.epsilon, color="gray", linestyle="--", label="budget")
    axes.set_xlabel(_LABELS[across])
    axes.set_ylabel(_LABELS[up])
    axes.set_title(f"{report.kind} on {report.facts.name}, delta {report.facts.delta:g}")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    out = io.BytesIO()
    figure.savefig(out, format=file_format, dpi=110)
    return out.getvalue()


def _as_html(report: PlanReport) -> str:
    picture = _drawn(report, "svg").decode()
    picture = picture[picture.index("<svg") :]
    words = html.escape(report.text())
    title = html.escape(f"Plan: {report.kind} on {report.facts.name}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"</head><body><h1>{title}</h1>{picture}<pre>{words}</pre></body></html>\n"
    )
