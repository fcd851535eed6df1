"""Every error class of the curator itself, and one example of each."""

from __future__ import annotations

from curator.errors import BudgetExhausted, CuratorError, TooFast
from curator.privacy.budget import BudgetNumbers

NUMBERS = BudgetNumbers(budget=10.0, spent=1.5, reserved=9.5, asked=11.0, remaining=0.5, delta=1e-5)


def tree(kind: type[CuratorError] = CuratorError) -> list[type[CuratorError]]:
    known = [child for child in kind.__subclasses__() if child.__module__.startswith("curator.")]
    return [kind, *(one for child in known for one in tree(child))]  # none that a test has made


def example(kind: type[CuratorError]) -> CuratorError:
    if issubclass(kind, BudgetExhausted):
        return kind(NUMBERS)
    if issubclass(kind, TooFast):
        return kind("DETAIL", 2.5)
    return kind("DETAIL")
