"""The public parameters of a PATE-GAN run, and what they may add up to."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from curator.divergences.critics import CriticShape
from curator.errors import MalformedRequest
from curator.mechanisms.specification import MAX_ROWS
from curator.mechanisms.state_size import networks_bytes, rows_bytes
from curator.mechanisms.teachers import TeacherSpec
from curator.privacy.records import ImageSpace
from curator.sanitizer.votes import Ballot, count_scale

_MAX_POOL = 1 << 26  # pixels of the questions that a student remembers
_MAX_STUDENT_WORK = 1 << 36  # multiplications of a step


class PateGanSpec(TeacherSpec):
    """Public parameters of one run; the shared ones are those of `TeacherSpec`.

    The first `num_labelled` L rows of a step are labelled, with public normal noise of standard
    deviation `reach` on every pixel. `labels` says how: "absolute" asks whether an image is real,
    "relative" whether it is more so with the noise added than with it taken away.
    `noise_multiplier` is over sqrt(L), the most that one unit moves the counts of a step. The
    student makes `student_steps` updates a step, each with `student_batch` of the questions of the
    last `pool_steps` steps. `residual` times what each label says beyond what the student expected
    is added to the answer, in the direction of the image's own noise.
    """

    num_labelled: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    labels: Literal["absolute", "relative"]
    reach: Annotated[float, Field(ge=0, le=2)]
    student: Literal["mlp", "conv"]
    student_width: Annotated[int, Field(ge=1, le=1024)]
    student_seed: Annotated[int, Field(ge=0, lt=2**63)]
    student_batch: Annotated[int, Field(ge=1, le=4096)]
    student_steps: Annotated[int, Field(ge=1, le=1000)]
    student_learning_rate: Annotated[float, Field(gt=0, le=1)]
    pool_steps: Annotated[int, Field(ge=1, le=10_000)]
    residual: Annotated[float, Field(ge=0, le=10)]

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        if self.num_labelled > self.num_samples:
            msg = "num_labelled must not exceed num_samples"
            raise ValueError(msg)
        if (self.labels == "relative" or self.residual > 0) and self.reach == 0:
            msg = "relative labels, and a residual, need a reach above 0"
            raise ValueError(msg)
        count_scale(self.ballot, self.noise_multiplier)
        return self

    @property
    def ballot(self) -> Ballot:
        """What every teacher is asked in a step."""
        return Ballot(num_voters=self.num_teachers, num_questions=self.num_labelled, num_options=1)

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of teachers, of the student, and of the questions it remembers."""
        sides = 2 if self.labels == "relative" else 1
        numbers = sides * space.dimension + space.num_classes + 1
        most = (self.pool_steps + 1) * self.num_labelled  # the oldest go after the newest come
        student = networks_bytes(student_shape(self, space), 1) + rows_bytes(most, numbers)
        return super().kept_bytes(space) + student


def student_shape(spec: PateGanSpec, space: ImageSpace) -> CriticShape:
    """Return the sizes of the student.

    Args:
        spec: Parameters of the run.
        space: Public image space of the data set.

    Returns:
        The sizes.

    Raises:
        MalformedRequest: If it would need absurd amounts of memory or time.

    Privacy:
        Reads the request and public facts only.
    """
    shape = CriticShape(
        kind=spec.student,
        width=spec.student_width,
        channels=space.channels,
        height=space.height,
        pixels_per_row=space.width,
        num_classes=space.num_classes,
    )
    if spec.pool_steps * spec.num_labelled * space.dimension > _MAX_POOL:
        detail = "num_labelled, pool_steps: too many images of this size"
        raise MalformedRequest(detail)
    rows = 2 * spec.student_batch * spec.student_steps
    if rows * shape.multiplications > _MAX_STUDENT_WORK:
        detail = "student_batch, student_steps: too much work for one step"
        raise MalformedRequest(detail)
    return shape
