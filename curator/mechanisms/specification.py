"""What every mechanism's specification shares: a frozen, strict set of public parameters."""

from __future__ import annotations

import json
from typing import Annotated

import torch
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from curator.errors import MalformedRequest
from curator.privacy.event import MAX_NOISE_MULTIPLIER, MIN_NOISE_MULTIPLIER
from curator.privacy.records import ImageSpace, Samples
from curator.sanitizer.lattice import lattice_radius

MAX_ROWS = 1 << 16


def _leaves_a_lattice(noise_multiplier: float) -> float:
    lattice_radius(noise_multiplier, sensitivity_in_radii=2)
    return noise_multiplier


NoiseMultiplier = Annotated[
    float,
    Field(ge=MIN_NOISE_MULTIPLIER, le=MAX_NOISE_MULTIPLIER),
    AfterValidator(_leaves_a_lattice),
]


class Specification(BaseModel):
    """Public parameters of one mechanism, fixed when a run opens.

    Nothing is converted, no unknown field is accepted, no number may be infinite or NaN, and
    nothing that carries privacy has a default.
    """

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )

    def kept_bytes(self, space: ImageSpace) -> int:  # noqa: ARG002 - one signature
        """Return the bytes that an open run keeps between its steps, at most.

        Args:
            space: Public image space of the data set.

        Privacy:
            A sum of public numbers.
        """
        return 0

    def journal_bytes(self, space: ImageSpace) -> int:  # noqa: ARG002 - one signature
        """Return the bytes of one step's samples, where they are kept on the disk for a while.

        Args:
            space: Public image space of the data set.

        Privacy:
            A product of public numbers.
        """
        return 0


def canonical_json(specification: Specification) -> str:
    """Return the one text of a specification: sorted keys, no blanks; what the ledger stores.

    Args:
        specification: Parsed parameters.

    Returns:
        ASCII JSON that parses back to an equal specification.
    """
    fields = specification.model_dump(mode="json")
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_rows(samples: Samples, space: ImageSpace, num_rows: range) -> None:
    """Refuse samples that a run did not declare.

    Args:
        samples: The analyst's rows.
        space: Public image space.
        num_rows: Numbers of rows that are accepted.

    Raises:
        MalformedRequest: If the number of rows, the image size or a label does not fit.

    Privacy:
        Reads the request and public facts only.
    """
    if samples.weights:
        detail = "weights: this mechanism takes images, and no weights"
        raise MalformedRequest(detail)
    if samples.images_ND.ndim != 2 or samples.images_ND.shape[1] != space.dimension:
        detail = f"images: expected rows of {space.dimension} pixels"
        raise MalformedRequest(detail)
    if samples.images_ND.shape[0] not in num_rows:
        wanted = f"{num_rows[0]}" if len(num_rows) == 1 else f"{num_rows[0]} to {num_rows[-1]}"
        detail = f"images: expected {wanted} rows"
        raise MalformedRequest(detail)
    if samples.labels_N.shape != samples.images_ND.shape[:1]:
        detail = "labels: expected one label per image"
        raise MalformedRequest(detail)
    least, most = torch.aminmax(samples.labels_N)
    if int(least) < 0 or int(most) >= space.num_classes:
        detail = f"labels: expected class indices below {space.num_classes}"
        raise MalformedRequest(detail)
