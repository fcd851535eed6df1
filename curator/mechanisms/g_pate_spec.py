"""The public parameters of a G-PATE run, and what they may add up to."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from curator.errors import MalformedRequest
from curator.mechanisms.state_size import LABEL_FLOATS, rows_bytes
from curator.mechanisms.teachers import TeacherSpec
from curator.privacy.records import ImageSpace
from curator.sanitizer.averaged import fine_radius
from curator.sanitizer.votes import Ballot, count_scale

_MAX_PROJECTION = 1 << 24  # entries: pixels times projections
_MAX_STEP_NUMBERS = 1 << 30  # what all teachers say in a step, bin by bin


class GPateSpec(TeacherSpec):
    """Public parameters of one run; the shared ones are those of `TeacherSpec`.

    Each teacher's direction for each of the B images has length 1 and is projected on
    `num_projections` P fresh public normal vectors. With `aggregation` "votes" each coordinate is
    cut to [-C, C], C being `clip_norm`, and falls into one of `num_bins` bins; the noise multiplier
    is over sqrt(2 B P), the most that one unit moves the counts of a step. With "mean" there are no
    bins (0), the P coordinates of an image are clipped to norm C together and averaged over
    teachers; the noise multiplier is over 2 C sqrt(B) / K.
    """

    num_projections: Annotated[int, Field(ge=1, le=1024)]
    projection_seed: Annotated[int, Field(ge=0, lt=2**63)]
    aggregation: Literal["votes", "mean"]
    num_bins: Annotated[int, Field(ge=0, le=1024)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]

    @model_validator(mode="after")
    def _check_bins(self) -> Self:
        if self.aggregation == "mean":
            if self.num_bins != 0:
                msg = "num_bins must be 0 where directions are averaged"
                raise ValueError(msg)
            fine_radius(self.noise_multiplier)
            return self
        if self.num_bins < 2:
            msg = "num_bins must be at least 2 where teachers vote"
            raise ValueError(msg)
        count_scale(self.ballot, self.noise_multiplier)
        return self

    @property
    def ballot(self) -> Ballot:
        """What every teacher is asked in a step: one question a projection of an image."""
        return Ballot(
            num_voters=self.num_teachers,
            num_questions=self.num_samples * self.num_projections,
            num_options=self.num_bins,
        )

    def journal_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the samples of a step."""
        return rows_bytes(self.num_samples, space.dimension + LABEL_FLOATS)


def check_projections(spec: GPateSpec, space: ImageSpace) -> None:
    """Refuse projections that would need absurd amounts of memory or time.

    Args:
        spec: Parameters of the run.
        space: Public image space of the data set.

    Raises:
        MalformedRequest: If they would.

    Privacy:
        Reads the request and public facts only.
    """
    said = spec.num_teachers * spec.num_samples * spec.num_projections
    if spec.num_projections * space.dimension > _MAX_PROJECTION:
        detail = "num_projections: too many for images of this size"
        raise MalformedRequest(detail)
    if said * max(1, spec.num_bins) > _MAX_STEP_NUMBERS:
        detail = "num_teachers, num_samples, num_projections, num_bins: too much work for one step"
        raise MalformedRequest(detail)
