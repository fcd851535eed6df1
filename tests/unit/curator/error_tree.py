"""Every error class of the curator, and one example of each."""

from __future__ import annotations

from curator.errors import BudgetExhausted, BudgetNumbers, CuratorError, TooFast

NUMBERS = BudgetNumbers(budget=10.0, spent=1.5, reserved=9.5, asked=11.0, remaining=0.5, delta=1e-5)


def tree(kind: type[CuratorError] = CuratorError) -> list[type[CuratorError]]:
    return [kind, *(one for child in kind.__subclasses__() for one in tree(child))]


def example(kind: type[CuratorError]) -> CuratorError:
    if issubclass(kind, BudgetExhausted):
        return kind(NUMBERS)
    if issubclass(kind, TooFast):
        return kind("DETAIL", 2.5)
    return kind("DETAIL")
