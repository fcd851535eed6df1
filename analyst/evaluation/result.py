"""One evaluation as JSON: what was compared, every number, and the privacy it cost if known."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from analyst.documents import STRICT, DocumentProblem, parsed, read_bounded
from analyst.errors import EvaluationError
from analyst.evaluation.assess import Assessment
from analyst.evaluation.classifier import Report
from analyst.evaluation.membership import PublicCheck
from analyst.new_file import write_file

FORMAT = "weir-evaluation-1"
_MOST_BYTES = 1 << 24


class _Accuracy(BaseModel):
    model_config = STRICT

    classifier: str
    accuracy: Annotated[float, Field(ge=0, le=1)]


class _Cost(BaseModel):
    model_config = STRICT

    epsilon: Annotated[float, Field(ge=0)]


class _File(BaseModel):
    """What is read of an evaluation."""

    model_config = STRICT

    name: str
    reports: list[_Accuracy]
    privacy: _Cost | None


_FILE = TypeAdapter(_File)


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
    public_check: PublicCheck | None
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


def save_evaluation(path: Path, evaluation: Evaluation, *, force: bool = False) -> None:
    """Write JSON; directories are made."""
    content = json.dumps(evaluation_json(evaluation), indent=1, allow_nan=False) + "\n"
    write_file(path, content.encode(), replace=force)


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

    Raises:
        EvaluationError: If it is not an evaluation, or does not know what its generator cost.
    """
    try:
        content = parsed(_FILE, read_bounded(path, _MOST_BYTES))
    except FileNotFoundError:
        message = f"{path} is not an evaluation: there is no such file"
        raise EvaluationError(message, "Give an evaluation.json of 'analyst evaluate'.") from None
    except DocumentProblem as problem:
        message = f"{path} is not an evaluation: {problem}"
        raise EvaluationError(message, "Give an evaluation.json of 'analyst evaluate'.") from None
    if content.privacy is None:
        message = f"{path} does not say what its generator cost"
        raise EvaluationError(message, "Evaluate it again with --run RUN_DIR.")
    accuracies = {one.classifier: one.accuracy for one in content.reports}
    return Point(name=content.name, epsilon=content.privacy.epsilon, accuracies=accuracies)
