"""Every offset of a budget rule is at least the exact one, whatever the budget.

The theorem of `coq/Ledger.v` asks for integers that are not below

    2^60 (log(1 - 1/a) - log(s a) / (a - 1)),    s at most w delta,

at every order a. The code computes them in decimals of 60 digits. Here its own functions run on
numbers that stand for all of a range: each has an interval of exact values and one of errors, and
every operation adds the rounding of 60 digits to the errors. So the answer is about every budget at
once; `mpmath` gives the intervals. That `register` puts these functions together as it should is
checked for some budgets and every favourite.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Final

from mpmath import iv, mp

from curator.privacy.budget import Budget
from proofs.copied import module
from proofs.subjects import ORDERS, RULE
from proofs.translate import find, numbers

_BITS: Final = 400
iv.prec = _BITS  # nobody else has intervals
_DIGITS: Final = 60
_HALF_UNIT: Final = iv.mpf(5) / iv.mpf(10) ** _DIGITS  # relative, of rounding to nearest
_UNIT: Final = 1 << 60
_DELTAS: Final = iv.mpf(["9e-13", "1e-2"])  # what is left of a budget's delta, which is above 2e-12
_BUDGETS: Final = ((10.0, 1e-5), (1.0, 1e-6), (0.2, 1e-9), (20.0, 1e-2), (0.01, 2.1e-12))
_TINY: Final = 2.0**-60  # beside numbers of 400 bits
_WEIGHTS: Final = (Fraction(9, 10), Fraction(1, 220))


@dataclass(frozen=True)
class Range:
    """All decimals that a computation may give: exact values, and what is added to them.

    Attributes:
        exact: Interval of what would be computed without rounding.
        error: Interval of the computed value less the exact one.
    """

    exact: iv.mpf
    error: iv.mpf

    def to_integral_value(self, rounding: str) -> Range:
        """Return the next integer above or below."""
        step = {ROUND_CEILING: iv.mpf([0, 1]), ROUND_FLOOR: iv.mpf([-1, 0])}
        return Range(self.exact, self.error + step.get(rounding, iv.mpf([-1, 1])))

    def __add__(self, number: int) -> Range:
        """Return the value with a number added on purpose, as an error."""
        return Range(self.exact, self.error + number)


class Rounding:
    """A context of 60 digits."""

    def __init__(self, prec: int, rounding: str = "") -> None:
        """Check the digits, and take the nearest decimal unless rounding goes down."""
        if prec < _DIGITS:
            msg = f"{prec} digits are fewer than the {_DIGITS} that are proved to do"
            raise ArithmeticError(msg)
        self._relative = iv.mpf([-2, 0] if rounding == ROUND_FLOOR else [-1, 1]) * _HALF_UNIT

    def _rounded(self, exact: iv.mpf, error: iv.mpf) -> Range:
        computed = exact + error
        return Range(exact, error + self._relative * abs(computed))

    def add(self, x: Range, y: Range) -> Range:
        """Return the rounded sum."""
        return self._rounded(x.exact + y.exact, x.error + y.error)

    def subtract(self, x: Range, y: Range) -> Range:
        """Return the rounded difference."""
        return self._rounded(x.exact - y.exact, x.error - y.error)

    def multiply(self, x: Range, y: Range) -> Range:
        """Return the rounded product."""
        error = x.error * y.exact + x.exact * y.error + x.error * y.error
        return self._rounded(x.exact * y.exact, error)

    def divide(self, x: Range, y: Range) -> Range:
        """Return the rounded quotient; the divisor is not near zero."""
        error = (x.error * y.exact - x.exact * y.error) / (y.exact * (y.exact + y.error))
        return self._rounded(x.exact / y.exact, error)

    def ln(self, x: Range) -> Range:
        """Return the rounded logarithm: its derivative is 1 / x."""
        near = x.exact + x.error
        slope = iv.mpf(1) / iv.mpf([min(x.exact.a, near.a), max(x.exact.b, near.b)])
        return self._rounded(iv.log(x.exact), x.error * slope)


def exactly(number: float | Fraction | Range) -> Range:
    """Return what `Decimal(number)` is."""
    if isinstance(number, Range):
        return number
    top, bottom = number.as_integer_ratio()
    return Range(iv.mpf(top) / iv.mpf(bottom), iv.mpf(0))


Function = Callable[..., Range]


def _functions(root: Path) -> tuple[Function, Function, Function]:
    """Return `_times`, `_offset` and `_units_above` of the code, on ranges.

    Raises:
        ArithmeticError: If the rule's context has other digits, or rounds otherwise.
    """
    tree = ast.parse((root / RULE).read_text())
    names: dict[str, object] = {
        "Context": Rounding,
        "Decimal": exactly,
        "UNIT": _UNIT,
        "ROUND_CEILING": ROUND_CEILING,
        "ROUND_FLOOR": ROUND_FLOOR,
        "int": lambda value: value,
    }
    (context,) = (
        one
        for one in tree.body
        if isinstance(one, ast.AnnAssign) and "_CONTEXT" in ast.unparse(one)
    )
    if context.value is None:
        raise ArithmeticError(ast.unparse(context))
    bodies = [ast.Assign([ast.Name("_CONTEXT", ast.Store())], context.value, lineno=1)]
    found = [find(tree, name) for name in ("_times", "_offset", "_units_above")]
    for one in found:
        one.args.args = [ast.arg(argument.arg) for argument in one.args.args]
        one.returns = None
    module = ast.fix_missing_locations(ast.Module([*bodies, *found], []))
    exec(compile(module, RULE, "exec"), names)  # noqa: S102 - the code's own functions
    times, offset, above = (names[one.name] for one in found)
    return times, offset, above  # type: ignore[return-value]


def _orders(root: Path) -> list[float]:
    tree = ast.parse((root / ORDERS).read_text())
    (node,) = (one for one in tree.body if isinstance(one, ast.AnnAssign))
    return list(numbers(node.value)) if isinstance(node.value, ast.Tuple) else []


def check(root: Path) -> list[str]:
    """Return what is wrong with the offsets.

    Args:
        root: Of the repository, or of a copy.
    """
    with mp.workprec(_BITS):
        return (_wrong_offsets(root) + _wrong_rules(root))[:5]


def _wrong_offsets(root: Path) -> list[str]:
    """Return what is wrong for some budget, of all."""
    times, offset, above = _functions(root)
    lines = []
    for weight in _WEIGHTS:
        fraction = SimpleNamespace(numerator=weight.numerator, denominator=weight.denominator)
        share = times(Range(_DELTAS, iv.mpf(0)), fraction)
        far = share.exact / _DELTAS.a * weight.denominator / weight.numerator - 1
        if share.error.b > 0 or abs(far.a) > _TINY:
            lines.append(f"a share of {weight} may be above it")
        for order in _orders(root):
            units = above(offset(order, Range(share.exact + share.error, iv.mpf(0))))
            if units.error.a < 0:
                lines.append(f"the offset of order {order:g} may be below the exact one")
            least, most = _exact(order, share.exact.b), _exact(order, share.exact.a)
            if max(abs(units.exact.a - least), abs(units.exact.b - most)) > _TINY:
                lines.append(f"the offset of order {order:g} is another number")
    return lines


def _exact(order: float, share: mp.mpf) -> mp.mpf:
    """Return 2^60 (log(1 - 1/a) - log(s a) / (a - 1)), far more accurate than any unit."""
    a = mp.mpf(order)
    return _UNIT * (mp.log(1 - 1 / a) - mp.log(mp.mpf(share) * a) / (a - 1))


def _wrong_rules(root: Path) -> list[str]:
    """Return what is wrong with the rules of some budgets."""
    rule, orders, lines = module(root / RULE), _orders(root), []
    for (epsilon, delta), favourite in product(_BUDGETS, orders):
        made = rule.BudgetRule.register(Budget(epsilon=epsilon, delta=delta), favourite)
        left = mp.mpf(delta) - mp.mpf(1) / 10**12
        for order, offset in zip(orders, made.offsets, strict=True):
            share = left * 9 / 10 if order == favourite else left / (10 * (len(orders) - 1))
            if not 0 <= offset - _exact(order, share) < 3:
                lines.append(f"the rule of {epsilon:g}, {delta:g} has a wrong offset at {order:g}")
    return lines
