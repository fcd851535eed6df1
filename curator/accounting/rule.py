"""The rule that decides whether a total cost is within a budget, with weights fixed once.

A total S is (epsilon, delta)-private, however adaptively its parts were chosen, when at some
order a: S(a) <= epsilon - log(1 - 1/a) + log(w_a (delta - slack) a) / (a - 1), where the weights
w_a sum to one and were fixed when the data set was registered. "Some order passes" with the full
delta at every order is unsound. All logarithms are taken once, at registration, in 60-digit
decimals; afterwards the rule is integer arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, Self

from curator.accounting.cost import UNIT, Cost, total_cost
from curator.accounting.orders import ORDERS
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import MAX_STEPS

IMPLEMENTATION_SLACK: Final = Decimal("1e-12")
"""The part of delta kept for the noise sampler's distance from the ideal distribution."""

RULE_NAME: Final = "renyi-weighted-orders-v1"
_FAVOURITE_WEIGHT: Final = Fraction(9, 10)
_CONTEXT: Final = Context(prec=60)


def order_threshold(alpha: float, epsilon: float, delta: Decimal | float) -> Decimal:
    """Return B(a; epsilon, delta), the most divergence at order `alpha` that a pair allows.

    References:
        [canonne:20], Proposition 12; [balle:20], Theorem 21.
    """
    return _CONTEXT.subtract(Decimal(epsilon), _offset(alpha, Decimal(delta)))


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetRule:
    """A budget with the epsilon that each order adds to its divergence, in units of 2^-60."""

    budget: Budget
    favourite: float
    offsets: tuple[int, ...]

    @classmethod
    def register(cls, budget: Budget, favourite: float | None = None) -> Self:
        """Fix the weights: nine tenths on one order.

        Args:
            budget: Of the data set.
            favourite: That order, chosen without looking at private data; by default the one with
                the largest threshold over order, which serves Gaussian releases best.

        Raises:
            ValueError: If the favourite is no order of the grid.

        Privacy:
            Sound for any favourite that is fixed before the first release.

        References:
            [feldman:21], Theorem 4.3 for one fixed order.
        """
        if favourite is None:
            favourite = default_favourite(budget)
        elif favourite not in ORDERS:
            msg = f"order {favourite:g} is none of {', '.join(f'{a:g}' for a in ORDERS)}"
            raise ValueError(msg)
        delta = _delta(budget)
        offsets = tuple(
            _units_above(_offset(a, _times(delta, w)))
            for a, w in zip(ORDERS, _weights(favourite), strict=True)
        )
        return cls(budget=budget, favourite=favourite, offsets=offsets)

    def __post_init__(self) -> None:
        """Check that there is one integer for each order.

        Raises:
            ValueError: If the offsets or the favourite order do not fit the grid.
        """
        integers = all(type(offset) is int for offset in self.offsets)
        if len(self.offsets) != len(ORDERS) or not integers or self.favourite not in ORDERS:
            msg = "a budget rule has one integer for each order"
            raise ValueError(msg)

    @property
    def chosen(self) -> float | None:
        """The favourite order, None if it is the one that any such budget has by default."""
        return None if self.favourite == default_favourite(self.budget) else self.favourite

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """The share of delta that each order has; they sum to one."""
        return _weights(self.favourite)

    def admits(self, total: Cost) -> bool:
        """Whether `total` is within the budget; nothing at all always is."""
        units = self._spent_units(total)
        numerator, denominator = self.budget.epsilon.as_integer_ratio()
        return units is not None and units * denominator <= numerator * UNIT

    def spent_epsilon(self, total: Cost) -> float:
        """Return the smallest epsilon whose rule passes `total`, rounded up.

        Returns:
            0.0 exactly when nothing was charged, infinity when no order is finite. It is at most
            the budget's epsilon if and only if `admits(total)`.
        """
        units = self._spent_units(total)
        if units is None:
            return math.inf
        exact = Fraction(units, UNIT)
        nearest = units / UNIT
        return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)

    def affordable_steps(self, already: Cost, setup: Cost, step: Cost, at_most: int) -> int:
        """Return the largest number of steps, up to `at_most`, that the budget admits.

        Args:
            already: What is reserved before the run.
            setup: The run's one-off cost.
            step: The cost of each step.
            at_most: The number of steps wished for.

        Returns:
            A number n such that n steps are admitted and n + 1 are not, unless n is `at_most`;
            0 also when not even the setup is affordable.
        """
        base = already + setup
        if not self.admits(base):
            return 0
        low, high = 0, max(0, at_most)
        while low < high:
            middle = (low + high + 1) // 2
            if self.admits(base + step * middle):
                low = middle
            else:
                high = middle - 1
        return low

    def to_json(self) -> dict[str, object]:
        """Return everything that the rule depends on, as plain values."""
        return {
            "rule": RULE_NAME,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "orders": list(ORDERS),
            "favourite": self.favourite,
            "offsets": [str(offset) for offset in self.offsets],
        }

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Return the rule that `to_json` wrote.

        Raises:
            ValueError: If it was written for another rule or another grid.
        """
        if not isinstance(value, dict) or value.get("rule") != RULE_NAME:
            msg = f"the budget rule is not {RULE_NAME}"
            raise ValueError(msg)
        if value.get("orders") != list(ORDERS):
            msg = "the budget rule was written for another grid of orders"
            raise ValueError(msg)
        try:
            budget = Budget(epsilon=value["epsilon"], delta=value["delta"])
            offsets = tuple(int(offset) for offset in value["offsets"])
            return cls(budget=budget, favourite=float(value["favourite"]), offsets=offsets)
        except (KeyError, TypeError) as error:
            msg = "the budget rule is incomplete"
            raise ValueError(msg) from error

    def _spent_units(self, total: Cost) -> int | None:
        """Return spent epsilon in units: positive once anything is charged, None if infinite."""
        if total.is_zero:
            return 0
        pairs = zip(total.units, self.offsets, strict=True)
        finite = [unit + offset for unit, offset in pairs if unit is not None]
        return max(1, min(finite)) if finite else None


@lru_cache(maxsize=1024)
def epsilon_of_uses(rule: BudgetRule, uses: tuple[tuple[Cost, int], ...]) -> float:
    """Return what costs, each so many times, come to; a ledger lists many runs used alike."""
    return rule.spent_epsilon(total_cost(uses))


@lru_cache(maxsize=256)
def default_favourite(budget: Budget) -> float:
    """Return the order with the largest threshold over order, which serves Gaussians best."""
    delta = _delta(budget)
    return max(ORDERS, key=lambda a: order_threshold(a, budget.epsilon, delta) / Decimal(a))


def _delta(budget: Budget) -> Decimal:
    return _CONTEXT.subtract(Decimal(budget.delta), IMPLEMENTATION_SLACK)


def _weights(favourite: float) -> tuple[Fraction, ...]:
    rest = (1 - _FAVOURITE_WEIGHT) / (len(ORDERS) - 1)
    return tuple(_FAVOURITE_WEIGHT if alpha == favourite else rest for alpha in ORDERS)


def _offset(alpha: float, delta: Decimal) -> Decimal:
    """Return log(1 - 1/a) - log(delta a) / (a - 1), what order a adds to its divergence."""
    a, one = Decimal(alpha), Decimal(1)
    c = _CONTEXT
    shrink = c.ln(c.subtract(one, c.divide(one, a)))
    return c.subtract(shrink, c.divide(c.ln(c.multiply(delta, a)), c.subtract(a, one)))


def _times(delta: Decimal, weight: Fraction) -> Decimal:
    """Return delta times weight, rounded down."""
    down = Context(prec=60, rounding=ROUND_FLOOR)
    return down.divide(down.multiply(delta, Decimal(weight.numerator)), Decimal(weight.denominator))


def _units_above(value: Decimal) -> int:
    """Return an integer number of units above `value`; one more covers the decimals' last digit."""
    return int(_CONTEXT.multiply(value, Decimal(UNIT)).to_integral_value(ROUND_CEILING)) + 1


def favourite_for(budget: Budget, setup: Cost, step: Cost) -> float:
    """Return the order whose rule affords most of a method.

    Args:
        budget: Of the data set, unspent.
        setup: What one run of it costs beside its steps.
        step: What each of its steps costs; a method that is charged once has none.

    Returns:
        An order of the grid; the default one unless another is better.

    Privacy:
        Looks at public numbers only, so the rule that follows is fixed without the data.
    """
    default = default_favourite(budget)

    def value(order: float) -> tuple[float, float, bool]:
        rule = BudgetRule.register(budget, order)
        if step.is_zero:
            return (0.0, -rule.spent_epsilon(setup), order == default)
        nothing = Cost.zero()
        steps = rule.affordable_steps(nothing, setup, step, MAX_STEPS)
        return (steps, -rule.spent_epsilon(setup + step), order == default)

    return max(ORDERS, key=value)
