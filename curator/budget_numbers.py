"""The numbers of a refusal that a budget makes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetNumbers:
    """The numbers of a refusal, all in epsilon at the data set's delta; public ledger facts."""

    budget: float
    spent: float  # by steps that may have been answered
    reserved: float  # spent and all open runs together
    asked: float  # what the refused request would bring the total to
    remaining: float
    delta: float
