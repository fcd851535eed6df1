"""One evaluation as JSON: what was compared, every number, and the privacy it cost if known."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analyst.evaluation.assess import Assessment
from analyst.evaluation.classifier import Report
from analyst.evaluation.errors import EvaluationError

FORMAT = "weir-evaluation-1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Privacy:
    """What a generator cost, from its run's certificate."""

    epsilon: float  # spent on the data set, over all runs, when the run closed
    delta: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """One synthetic set, measured."""

    name: str
    num_synthetic: int
    num_test: int
    num_public: int
    seed: int
    reports: tuple[Report, ...]
    assessment: Assessment | None
    privacy: Privacy | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One run on the privacy and utility curve."""

    name: str
    epsilon: float
    accuracies: dict[str, float]


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as plain values."""
    return {"format": FORMAT, **asdict(evaluation)}


def save_evaluation(path: Path, evaluation: Evaluation) -> None:
    """Write JSON; directories are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = evaluation_json(evaluation)
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")


def point_of(evaluation: Evaluation) -> Point | None:
    """Return the point of an evaluation; None if what it cost is not known."""
    if evaluation.privacy is None:
        return None
    return Point(
        name=evaluation.name,
        epsilon=evaluation.privacy.epsilon,
        accuracies={report.classifier: report.accuracy for report in evaluation.reports},
    )


def load_point(path: Path) -> Point:
    """Read an evaluation for the curve.

    Args:
        path: What `save_evaluation` wrote.

    Returns:
        Its point.

    Raises:
        EvaluationError: If it is not an evaluation, or does not know what its generator cost.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        accuracies = {one["classifier"]: float(one["accuracy"]) for one in content["reports"]}
        name, privacy = str(content["name"]), content["privacy"]
        epsilon = None if privacy is None else float(privacy["epsilon"])
    except (OSError, ValueError, KeyError, TypeError):
        message = f"{path} is not an evaluation"
        raise EvaluationError(message, "Give an evaluation.json of 'analyst evaluate'.") from None
    if epsilon is None:
        message = f"{path} does not say what its generator cost"
        raise EvaluationError(message, "Evaluate it again with --run RUN_DIR.")
    return Point(name=name, epsilon=epsilon, accuracies=accuracies)
