"""What may cross the barrier.

`Release(...)` is written only in `curator/sanitizer`; a test walks the syntax trees to keep it so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from torch import Tensor


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LatticeBlock:
    """Noised integers on a public grid: row values are `integers * grid`, exactly."""

    integers: Tensor  # int64, any shape
    grid: float


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FloatBlock:
    """Floats computed from releases and public values only."""

    values: Tensor  # float32


Block = LatticeBlock | FloatBlock


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Release:
    """Rows that are safe to publish; blocks follow each other along the first axis."""

    blocks: tuple[Block, ...]
