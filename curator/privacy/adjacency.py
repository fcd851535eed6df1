"""The neighbouring relation that every guarantee names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """What one person contributes at most one of: a record, or a group of records."""

    RECORD = "record"
    GROUP = "group"


class Relation(StrEnum):
    """How two neighbouring data sets differ. A replace-one ledger would be a second member."""

    ADD_OR_REMOVE = "add-or-remove"


@dataclass(frozen=True, kw_only=True, slots=True)
class Adjacency:
    """Two data sets are neighbours when they differ by `relation` of one `unit`."""

    relation: Relation
    unit: Unit

    def __str__(self) -> str:
        """Return the words printed beside every epsilon."""
        return f"{self.relation}-one-{self.unit}"
