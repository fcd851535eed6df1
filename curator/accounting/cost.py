"""The cost of a release as exact integers, one for each order, in units of 2^-60.

Floats end here: what the ledger adds, multiplies and compares are Python integers, so no sum
drifts and no order of additions matters. Every float is inflated by 1e-9 and rounded up first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from operator import add
from typing import Final, Self

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.orders import ORDERS

UNIT: Final = 1 << 60
_INFLATION: Final = Fraction(1_000_000_001, 1_000_000_000)
_INFINITE: Final = "inf"


@dataclass(frozen=True, slots=True)
class Cost:
    """Renyi divergence at each order of `ORDERS`, in units of 2^-60; None is infinite."""

    units: tuple[int | None, ...]

    def __post_init__(self) -> None:
        """Check that there is one non-negative integer or None for each order.

        Raises:
            ValueError: If the length, a type or a sign is wrong.
        """
        if len(self.units) != len(ORDERS):
            msg = f"a cost has {len(ORDERS)} orders"
            raise ValueError(msg)
        finite = [unit for unit in self.units if unit is not None]
        if set(map(type, finite)) - {int} or min(finite, default=0) < 0:
            msg = "a cost is a non-negative integer, or None for infinite, at each order"
            raise ValueError(msg)

    @classmethod
    def zero(cls) -> Self:
        """Return the cost of using nothing."""
        return cls((0,) * len(ORDERS))

    @property
    def is_zero(self) -> bool:
        """Whether nothing at all was charged."""
        return not any(self.units) and None not in self.units

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both; infinite where either is."""
        if None in self.units or None in other.units:
            pairs = zip(self.units, other.units, strict=True)
            return Cost(tuple(None if a is None or b is None else a + b for a, b in pairs))
        return Cost(tuple(map(add, self.units, other.units)))

    def beyond(self, other: Cost) -> Cost:
        """Return the least cost that added to `other` is at least this one, at each order."""
        pairs = zip(self.units, other.units, strict=True)
        return Cost(
            tuple(0 if b is None else None if a is None else max(0, a - b) for a, b in pairs)
        )

    def __mul__(self, times: int) -> Cost:
        """Return the cost of `times` releases; none of anything costs nothing.

        Raises:
            ValueError: If `times` is not a non-negative integer.
        """
        if type(times) is not int or times < 0:
            msg = "a cost is multiplied by a non-negative integer"
            raise ValueError(msg)
        if times == 0:
            return Cost.zero()
        return Cost(tuple([None if unit is None else unit * times for unit in self.units]))

    def over(self, share: float) -> Cost:
        """Return the least cost of which so large a share is at least this one, at each order.

        Args:
            share: Above 0 and at most 1.

        Raises:
            ValueError: If it is not.
        """
        if not 0 < share <= 1:
            msg = "a share is above 0 and at most 1"
            raise ValueError(msg)
        part = Fraction(share)
        return Cost(
            tuple([None if unit is None else math.ceil(unit / part) for unit in self.units])
        )

    def minus(self, other: Cost) -> Cost:
        """Return what is left when `other` is taken away; an infinite order stays infinite.

        Raises:
            ValueError: If more would be taken away than is there.
        """
        left: list[int | None] = []
        for a, b in zip(self.units, other.units, strict=True):
            if a is not None and (b is None or b > a):
                msg = "a cost cannot go below zero"
                raise ValueError(msg)
            left.append(None if a is None or b is None else a - b)
        return Cost(tuple(left))

    def to_json(self) -> list[str]:
        """Return decimal text, one item for each order."""
        return [_INFINITE if unit is None else str(unit) for unit in self.units]

    @classmethod
    def from_json(cls, items: Sequence[object]) -> Self:
        """Return the cost that `to_json` wrote.

        Raises:
            ValueError: If an item is not canonical decimal text.
        """
        units: list[int | None] = []
        for item in items:
            if item == _INFINITE:
                units.append(None)
            elif isinstance(item, str) and item.isascii() and item.isdecimal():
                units.append(int(item))
            else:
                msg = "a cost is written as decimal text"
                raise ValueError(msg)
        return cls(tuple(units))


def total_cost(uses: Iterable[tuple[Cost, int]]) -> Cost:
    """Return the sum of each cost times its count; equal costs are counted before multiplying."""
    counts: dict[Cost, int] = {}
    for cost, count in uses:
        counts[cost] = counts.get(cost, 0) + count
    return sum((cost * count for cost, count in counts.items()), Cost.zero())


@lru_cache(maxsize=4096)
def event_cost(event: PrivacyEvent) -> Cost:
    """Return an upper bound of the cost of one use.

    `rdp_bound` of each part is within 1e-10 relative of a proved bound, so multiplying by 1 + 1e-9
    and rounding up in exact arithmetic cannot fall below the truth.

    Args:
        event: The use. Its sampling rate is read as a float that is already rounded up.

    Returns:
        ceil(2^60 rho (1 + 1e-9)) at each order, infinite where rho is not finite; added up over
        parts and releases.
    """
    costs = (
        Cost(tuple(_round_up(part.rdp_bound(alpha)) for alpha in ORDERS)) * part.repeats
        for part in event.parts
    )
    return sum(costs, Cost.zero())


def _round_up(rho: float) -> int | None:
    """Return ceil(2^60 rho (1 + 1e-9)) exactly, at least 1 for a positive event."""
    if not rho < math.inf:  # NaN too: an unknown cost is infinite, never zero
        return None
    return max(1, math.ceil(Fraction(rho) * _INFLATION * UNIT))
