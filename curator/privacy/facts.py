"""The public facts of a data set, typed in by the steward and never read off the images."""

from __future__ import annotations

import re
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from curator.privacy.adjacency import Adjacency, Relation, Unit
from curator.privacy.batches import LARGEST_LEVEL, ImageSpace
from curator.privacy.budget import REHEARSAL_EPSILON, Budget

DATASET_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
REHEARSAL_PREFIX: Final = "rehearsal-"
"""Every rehearsal's name begins so, and no other name does: it is seen wherever a name is."""
DatasetName = Annotated[str, StringConstraints(pattern=rf"^{DATASET_NAME.pattern}$")]
ClassName = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class DatasetFacts(BaseModel):
    """Everything about a data set that anyone may know; stored in the ledger.

    `nominal_size`, `max_size`, `sampling_rate` and `capacity` are declarations: under
    add-or-remove the true size is private. Sizes count units and the rate is a unit's, so groups
    where the unit is a group; `capacity` always counts rows. A group keeps at most
    `max_records_per_group` records, which is null where the unit is a record.

    A rehearsal holds public images and has no limit. The flag, the name and the budget say so
    together or not at all, so that no single mistake makes one of private images.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: DatasetName
    channels: int = Field(ge=1)
    height: int = Field(ge=1)
    width: int = Field(ge=1)
    max_level: int = Field(ge=1, le=LARGEST_LEVEL)
    classes: tuple[ClassName, ...] = Field(min_length=1, strict=False)
    nominal_size: int = Field(ge=1)
    max_size: int = Field(ge=1)
    sampling_rate: float = Field(gt=0, le=1, allow_inf_nan=False)
    capacity: int = Field(ge=1, le=1 << 16)
    relation: Relation = Field(strict=False)
    unit: Unit = Field(strict=False)
    max_records_per_group: int | None = Field(default=None, ge=1)
    epsilon: float
    delta: float
    rehearsal: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.classes)) != len(self.classes):
            msg = "classes must be distinct"
            raise ValueError(msg)
        if self.max_size < self.nominal_size:
            msg = "max_size must not be below nominal_size"
            raise ValueError(msg)
        if self.unit is Unit.GROUP and self.max_records_per_group is None:
            msg = "the unit is a group: add --max-records-per-group K, the most records of one"
            raise ValueError(msg)
        if self.unit is Unit.RECORD and self.max_records_per_group is not None:
            msg = "the unit is a record, not a group: leave --max-records-per-group out"
            raise ValueError(msg)
        if (self.max_records_per_group or 1) > self.capacity:
            msg = "max_records_per_group must not be above capacity"
            raise ValueError(msg)
        if not self.rehearsal == is_rehearsal(self.name) == (self.epsilon == REHEARSAL_EPSILON):
            msg = (
                "only 'curator rehearse' makes data sets without a limit, and their names begin "
                f"with {REHEARSAL_PREFIX}"
            )
            raise ValueError(msg)
        _ = self.space, self.budget  # both check their own numbers
        return self

    @property
    def space(self) -> ImageSpace:
        """The public image space."""
        return ImageSpace(
            channels=self.channels,
            height=self.height,
            width=self.width,
            max_level=self.max_level,
            num_classes=len(self.classes),
        )

    @property
    def budget(self) -> Budget:
        """The cap over all analysts."""
        return Budget(epsilon=self.epsilon, delta=self.delta)

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation of every guarantee about this data set."""
        return Adjacency(relation=self.relation, unit=self.unit)


def is_rehearsal(name: str) -> bool:
    """Whether a data set of this name is a rehearsal's."""
    return name.startswith(REHEARSAL_PREFIX)
