"""How many images a new data set shares with those that have a budget already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from curator.data.errors import SourceError
from curator.data.image_hashes import Hashes

MOST_SHARED: Final = 0.5
"""The part of the smaller set that may be shared, unless the steward says otherwise."""

_WHY = "a second budget for them would double what is released about the same people"


class SameImages(SourceError):
    """A whole copy, for which there is no option."""

    def __init__(self, name: str) -> None:
        """Say of which registered set."""
        super().__init__(
            f"the same images are registered as '{name}': {_WHY}; if no run was ever opened on "
            f"'{name}', erase it first, and they may be added again"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """Distinct images that two sets share; private."""

    name: str  # of the set that is registered
    shared: int
    smaller: int  # distinct images of the smaller set

    @property
    def line(self) -> str:
        """What the steward is told."""
        return f"{self.shared} of {self.smaller} images are also in '{self.name}'"


def check_overlap(
    new: Hashes, known: Iterable[tuple[str, Hashes]], most_shared: float
) -> tuple[Overlap, ...]:
    """Compare a new set with every registered one, and with all of them together.

    Args:
        new: Of the set to be added.
        known: Of each registered set, by name.
        most_shared: The part of the smaller set, or of the new one, that may be shared.

    Raises:
        SameImages: If a set has the very same images, whatever may be shared.
        SourceError: If more is shared.
    """
    overlaps, is_known = [], np.zeros(len(new), dtype=bool)
    for name, hashes in known:
        found = _is_in(new, hashes)
        is_known |= found
        shared, smaller = int(found.sum()), min(len(new), len(hashes))
        if shared == len(new) == len(hashes):
            raise SameImages(name)
        if shared:
            overlaps.append(Overlap(name=name, shared=shared, smaller=smaller))
            _check_share(overlaps[-1].line, shared, smaller, most_shared)
    words = f"{is_known.sum()} of {len(new)} images are also in registered data sets"
    _check_share(words, int(is_known.sum()), len(new), most_shared)
    return tuple(overlaps)


def _check_share(words: str, shared: int, of: int, most_shared: float) -> None:
    """Check one share.

    Raises:
        SourceError: If it is too large.
    """
    if shared > most_shared * of:
        msg = (
            f"{words}, more than --max-shared {most_shared:g} allows: {_WHY}; leave them out, or "
            "allow a larger share if they tell nothing of anybody, such as blank images"
        )
        raise SourceError(msg)


def _is_in(some: Hashes, others: Hashes) -> np.ndarray:
    """Return for each hash whether it is among ascending others."""
    if not len(others):
        return np.zeros(len(some), dtype=bool)
    places = np.minimum(np.searchsorted(others, some), len(others) - 1)
    found: np.ndarray = others[places] == some
    return found
