"""Units: records, or groups of records that one person contributed, kept side by side.

Shape legend: N records, U units.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curator.data.images import LabelledImages
from curator.data.scratch import gathered
from curator.data.store import StoredImages

Indices = npt.NDArray[np.int64]


def limit_groups(images: LabelledImages, most: int, scratch: Path | None = None) -> LabelledImages:
    """Keep the first records of each group, as stored, and bring each group's records together.

    Args:
        images: Records with their groups.
        most: Public number K of records that a group may keep.
        scratch: A folder with room for them, to gather them on disk and not in memory.

    Returns:
        At most `most` records of each group, groups side by side, numbered without gaps.

    Raises:
        ValueError: If the images have no groups or `most` is not positive.

    Privacy:
        What is kept of a group depends on that group's records alone, so data sets that differ by
        one group still do.
    """
    if images.groups is None or most < 1:
        msg = "a limit of at least one record per group needs groups"
        raise ValueError(msg)
    order = np.argsort(images.groups, kind="stable")
    together = images.groups[order]
    firsts = np.searchsorted(together, together, side="left")
    kept = order[np.arange(len(order)) - firsts < most]
    levels = images.levels
    return LabelledImages(
        levels=levels[kept] if scratch is None else gathered(levels, kept, scratch),
        labels=images.labels[kept],
        groups=images.groups[kept],
        max_per_group=most,
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Units:
    """Where the rows of each unit are; without `starts` every record is a unit."""

    num_units: int
    most_rows: int  # public bound on the rows of one unit
    starts: Indices | None = None  # U + 1 entries

    @classmethod
    def of(cls, images: LabelledImages | StoredImages) -> Units:
        """Return the units of stored records.

        Args:
            images: As `limit_groups` returns them, or without groups.

        Raises:
            ValueError: If the groups are not numbered 0, 1, ... side by side, or one has more
                records than the public bound.
        """
        groups, most = images.groups, images.max_per_group
        if (groups is None) != (most is None):
            msg = "groups come with the number of records that one may have"
            raise ValueError(msg)
        if groups is None or most is None:
            return cls(num_units=len(images.labels), most_rows=1)
        steps = np.diff(groups.astype(np.int64), prepend=-1)
        starts = np.append(np.flatnonzero(steps), len(groups)).astype(np.int64)
        numbered = len(groups) == len(images.labels) and bool(((steps == 0) | (steps == 1)).all())
        if not numbered or np.diff(starts).max(initial=0) > most:
            msg = "groups are not numbered side by side, or one has too many records"
            raise ValueError(msg)
        return cls(num_units=len(starts) - 1, most_rows=most, starts=starts)

    def after(self, unit: int, rows: int) -> int:
        """Return the end of the longest run of units that starts at `unit` and fits into `rows`.

        Args:
            unit: First unit.
            rows: At least `most_rows`.
        """
        if self.starts is None:
            return min(unit + rows, self.num_units)
        if unit >= self.num_units:
            return unit
        return int(np.searchsorted(self.starts, self.starts[unit] + rows, side="right")) - 1

    def place(self, units: Indices, rows: int) -> tuple[Indices, Indices]:
        """Lay units out one after the other.

        Args:
            units: Unit indices.
            rows: Public number of places.

        Returns:
            For each place the record there, and the position in `units` of its unit: -1, with
            record 0, where no unit is left, and -1 for a unit that does not fit in whole.
        """
        places = np.arange(rows)
        if not len(units):
            return np.zeros(rows, dtype=np.int64), np.full(rows, -1, dtype=np.int64)
        firsts = units if self.starts is None else self.starts[units]
        lasts = units + 1 if self.starts is None else self.starts[units + 1]
        ends = np.cumsum(lasts - firsts)
        slots = np.minimum(np.searchsorted(ends, places, side="right"), len(units) - 1)
        records = lasts[slots] - ends[slots] + places
        inside = places < ends[-1]
        whole = inside & (ends[slots] <= rows)
        return np.where(inside, records, 0), np.where(whole, slots, -1)
