"""Running totals of a data set and of each analyst there, kept as runs change, exact to the unit.

Costs are integers, so a sum that follows every change is the sum over all runs, to the last unit;
a replay counts both ways and compares. An infinite cost is counted, not added: it can be taken
away again when the run that reserved it ends without having spent it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import add, mul
from typing import Final, NamedTuple, Self, final

from curator.accounting.cost import Cost
from curator.accounting.orders import ORDERS
from curator.ledger.datasets_and_runs import RunState

EVERYBODY: Final = ""
"""Whose totals are those of the whole data set; no analyst has this name."""

_MOST_COUNTS: Final = 1000
_NONE: Final = (0,) * len(ORDERS)


class Tally(NamedTuple):
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
            more = map(mul, cost.units, repeat(times))
            finite = tuple(map(add, self.finite, more))
            return Tally(finite if times > 0 else _checked(finite), self.infinite)
        pairs = list(zip(self.finite, self.infinite, cost.units, strict=True))
        return Tally(
            _checked(tuple(a if unit is None else a + times * unit for a, _, unit in pairs)),
            _checked(tuple(a + times if unit is None else a for _, a, unit in pairs)),
        )

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


class Totals(NamedTuple):
    """What some runs have spent and have reserved, and how many of them are closed."""

    spent: Tally = Tally()
    reserved: Tally = Tally()
    num_closed: int = 0

    def after(self, change: Change) -> Totals:
        """Return the totals after one of the runs changed, or was opened."""
        spent, reserved = self.spent, self.reserved
        for cost, more_spent, more_reserved in change.uses:
            spent = spent.plus(cost, more_spent)
            reserved = reserved.plus(cost, more_reserved)
        return Totals(spent, reserved, self.num_closed + change.num_closed)


class Change(NamedTuple):
    """What a run adds to totals: costs, with how often more they are spent and are reserved."""

    uses: list[tuple[Cost, int, int]]
    num_closed: int

    @classmethod
    def of(cls, before: RunState | None, run: RunState) -> Self:
        """Return the difference.

        Args:
            before: The run as it was; None for a new one.
            run: The run as it is now.
        """
        then = _UNUSED if before is None else _counts(before)
        uses = [
            (cost, spent - was_spent, reserved - was_reserved)
            for cost, (spent, reserved), (was_spent, was_reserved) in zip(
                (run.setup, run.step), _counts(run), then, strict=True
            )
            if (spent, reserved) != (was_spent, was_reserved) and not cost.is_zero
        ]
        return cls(uses, int(not run.is_open))


_UNUSED: Final = ((0, 0), (0, 0))


def _counts(run: RunState) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return how often the setup and the step are spent and reserved."""
    begun, used = int(run.setup_begun), run.used
    return ((begun, 1), (used, run.num_steps)) if run.is_open else ((begun, begun), (used, used))


@final
class Sums:
    """The totals again, as sums over runs: equal costs are counted before they are multiplied."""

    def __init__(self, totals: Mapping[tuple[str, str], Totals]) -> None:
        """Start with the sums over some runs."""
        self._totals = dict(totals)
        self._counts: dict[tuple[str, str, Cost, Cost], list[int]] = {}

    def add(self, run: RunState, times: int = 1) -> None:
        """Count one run; with -1 forget it as it was."""
        (begun, setups), (used, steps) = _counts(run)
        counts = self._counts.setdefault((run.dataset, run.analyst, run.setup, run.step), [0] * 5)
        for place, more in enumerate((begun, setups, used, steps, not run.is_open)):
            counts[place] += times * more
        if len(self._counts) > _MOST_COUNTS:
            self._multiply()

    def totals(self) -> dict[tuple[str, str], Totals]:
        """Return the sums, by data set and analyst, with those of everybody."""
        self._multiply()
        return self._totals

    def _multiply(self) -> None:
        for (dataset, analyst, setup, step), counts in self._counts.items():
            begun, setups, used, steps, closed = counts
            change = Change([(setup, begun, setups), (step, used, steps)], closed)
            for key in {(dataset, EVERYBODY), (dataset, analyst)}:
                self._totals[key] = self._totals.get(key, Totals()).after(change)
        self._counts.clear()


def _checked(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers if none is negative.

    Raises:
        ValueError: If one is.
    """
    if min(numbers) < 0:
        msg = "a total cannot go below zero"
        raise ValueError(msg)
    return numbers
