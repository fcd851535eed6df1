"""Running totals of a data set and of each analyst there, kept as runs change, exact to the unit.

Costs are integers, so a sum that follows every change is the sum over all runs, to the last unit;
a replay counts both ways and compares. An infinite cost is counted, not added: it can be taken
away again when the run that reserved it ends without having spent it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from curator.accounting.cost import Cost
from curator.accounting.orders import ORDERS
from curator.ledger.records import RunState, Use

EVERYBODY: Final = ""
"""Whose totals are those of the whole data set; no analyst has this name."""

_NONE: Final = (0,) * len(ORDERS)


@dataclass(frozen=True, slots=True)
class Tally:
    """A sum of costs of which each can be taken away again: units, and infinities, by order."""

    finite: tuple[int, ...] = _NONE
    infinite: tuple[int, ...] = _NONE

    @property
    def cost(self) -> Cost:
        """The sum; infinite where one of the costs is."""
        if self.infinite == _NONE:
            return Cost(self.finite)
        pairs = zip(self.finite, self.infinite, strict=True)
        return Cost(tuple(None if infinite else finite for finite, infinite in pairs))

    def plus(self, cost: Cost, times: int) -> Tally:
        """Return the sum with a cost so many times more, or less if negative.

        Raises:
            ValueError: If more would be taken away than was added.
        """
        if not times:
            return self
        if None not in cost.units:
            finite = tuple([a + times * (b or 0) for a, b in zip(self.finite, cost.units)])  # noqa: B905 - both have one for each order
            return Tally(_checked(finite), self.infinite)
        pairs = list(zip(self.finite, self.infinite, cost.units, strict=True))
        return Tally(
            _checked(tuple(a if unit is None else a + times * unit for a, _, unit in pairs)),
            _checked(tuple(a + times if unit is None else a for _, a, unit in pairs)),
        )

    def with_all(self, other: Tally) -> Tally:
        """Return both sums together."""
        pairs = ((self.finite, other.finite), (self.infinite, other.infinite))
        return Tally(*(tuple(a + b for a, b in zip(*pair, strict=True)) for pair in pairs))

    def to_json(self) -> list[str]:
        """Return decimal text: the units of each order, then the infinities if there are any."""
        infinite = () if self.infinite == _NONE else self.infinite
        return [str(number) for number in (*self.finite, *infinite)]

    @classmethod
    def from_json(cls, items: Sequence[str]) -> Self:
        """Return the sum that `to_json` wrote.

        Raises:
            ValueError: If it is not one or two numbers for each order.
        """
        numbers = tuple(int(item) for item in items)
        if len(numbers) not in {len(ORDERS), 2 * len(ORDERS)}:
            msg = "a total has one or two numbers for each order"
            raise ValueError(msg)
        return cls(numbers[: len(ORDERS)], numbers[len(ORDERS) :] or _NONE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """What some runs have spent and have reserved, and how many of them are closed."""

    spent: Tally = Tally()
    reserved: Tally = Tally()
    num_closed: int = 0

    def moved(self, before: RunState | None, run: RunState) -> Totals:
        """Return the totals after one of the runs changed, or was opened.

        Args:
            before: The run as it was; None for a new one.
            run: The run as it is now.
        """
        return Totals(
            spent=_moved(self.spent, before and before.spent_uses, run.spent_uses),
            reserved=_moved(self.reserved, before and before.reserved_uses, run.reserved_uses),
            num_closed=self.num_closed + (not run.is_open),
        )


def over_analysts(
    totals: Mapping[tuple[str, str], Totals],
) -> dict[tuple[str, str], Totals]:
    """Return totals of analysts, by data set and name, with the sums over everybody."""
    found = dict(totals)
    for (dataset, _), part in totals.items():
        whole = found.get((dataset, EVERYBODY), Totals())
        found[dataset, EVERYBODY] = Totals(
            spent=whole.spent.with_all(part.spent),
            reserved=whole.reserved.with_all(part.reserved),
            num_closed=whole.num_closed + part.num_closed,
        )
    return found


def _moved(tally: Tally, before: tuple[Use, Use] | None, after: tuple[Use, Use]) -> Tally:
    was = (0, 0) if before is None else (before[0][1], before[1][1])
    for (cost, now), then in zip(after, was, strict=True):
        tally = tally.plus(cost, now - then)
    return tally


def _checked(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers if none is negative.

    Raises:
        ValueError: If one is.
    """
    if min(numbers) < 0:
        msg = "a total cannot go below zero"
        raise ValueError(msg)
    return numbers
