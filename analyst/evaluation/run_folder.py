"""What a report shows of the run that made the generator: its certificate and its metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, TypeAdapter

from analyst.certificate import Verified, certificate_text, check_certificate
from analyst.documents import STRICT, DocumentProblem, parsed, read_lines
from analyst.errors import EvaluationError
from analyst.evaluation.image_file import LabelledImages
from analyst.evaluation.result import Privacy
from analyst.training.checkpoint import checkpoint_store


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingCurves:
    """One entry per metric line."""

    steps: tuple[int, ...]
    gradient_norms: tuple[float, ...]
    spent_epsilons: tuple[float, ...]


class _Line(BaseModel):
    model_config = STRICT

    kind: str


class _Update(BaseModel):
    model_config = STRICT

    step: Annotated[int, Field(ge=0)]
    gradient_norm: Annotated[float, Field(ge=0)]
    spent_epsilon: Annotated[float, Field(ge=0)]


_LINE, _UPDATE = TypeAdapter(_Line), TypeAdapter(_Update)
_LONGEST_LINE = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFolder:
    """The public record of a run; None where a file is not there."""

    certificate: str | None  # in words
    privacy: Privacy | None
    curves: TrainingCurves | None


def check_made_by(synthetic: LabelledImages, directory: Path) -> None:
    """Check that images are of the run whose certificate and curves are shown beside them.

    Args:
        synthetic: The images; those without a run are taken as they are.
        directory: Output directory of the run, or its certificate alone.

    Raises:
        EvaluationError: If they say another run than the newest checkpoint.
        CheckpointError: If what that checkpoint says of itself is damaged.
    """
    run_id = _run_id(directory)
    if not synthetic.run_id or run_id is None:
        return
    if run_id != synthetic.run_id:
        message = f"the images are of run {synthetic.run_id}, and {directory} holds {run_id}"
        raise EvaluationError(message, "Give the --run whose 'analyst sample' made them.")


def _run_id(place: Path) -> str | None:
    """Return which run a folder or a certificate is of; None if it does not say."""
    if place.is_file():
        named = check_certificate(place).statement.get("run", {}).get("id")
        return None if named is None else str(named)
    store = checkpoint_store(place)
    return store.manifest().run_id if store.exists() else None


def read_run_folder(directory: Path) -> RunFolder:
    """Read an output directory of 'analyst train', or the certificate of a loop of one's own.

    Args:
        directory: The directory, of which an open run has no certificate yet; or a certificate.

    Raises:
        EvaluationError: If it is no such directory, or its metrics are damaged.
        CertificateError: If the certificate does not hold.
    """
    if directory.is_file():
        alone = check_certificate(directory)
        text = certificate_text(alone)
        return RunFolder(certificate=text, privacy=_privacy(alone), curves=None)
    if not (directory / "metrics.jsonl").exists():
        message = f"{directory} is not the directory of a run: it has no metrics.jsonl"
        raise EvaluationError(message, "Give the --out of 'analyst train', or a certificate.")
    path = directory / "certificate.json"
    verified = check_certificate(path) if path.exists() else None
    return RunFolder(
        certificate=None if verified is None else certificate_text(verified),
        privacy=None if verified is None else _privacy(verified),
        curves=_curves(directory / "metrics.jsonl"),
    )


def _privacy(verified: Verified) -> Privacy | None:
    """Return what was spent; None of a rehearsal, which promises nothing."""
    if verified.is_rehearsal:
        return None
    dataset = verified.statement["dataset"]
    return Privacy(
        epsilon=float(dataset["spent_epsilon"]), delta=float(dataset["promise"]["delta"])
    )


def _curves(path: Path) -> TrainingCurves | None:
    """Read the updates.

    Raises:
        EvaluationError: If a whole line is not what training writes.
    """
    updates: list[_Update] = []
    number = 1
    try:
        for line in read_lines(path, _LONGEST_LINE):
            if parsed(_LINE, line).kind == "update":
                updates.append(parsed(_UPDATE, line))
            number += 1
    except DocumentProblem as problem:
        message = f"{path} is damaged in line {number}: {problem}"
        raise EvaluationError(message, "Evaluate without --run.") from None
    curves = TrainingCurves(
        steps=tuple(one.step for one in updates),
        gradient_norms=tuple(one.gradient_norm for one in updates),
        spent_epsilons=tuple(one.spent_epsilon for one in updates),
    )
    return curves if updates else None
