"""Ledgers with the mistakes that others make. The harness must find them out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from curator.errors import BudgetExhausted
from curator.ledger.ledger import Ledger, RunOpening, RunState


class Opens(Protocol):
    def open_run(self, opening: RunOpening, holder: str) -> RunState: ...


class ComputesThenCharges:
    """Says yes at once and writes the charge when it is next asked for anything."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._owed: list[Callable[[], object]] = []

    def advance_mark(self, run_id: str, holder: str, epoch: int, used: int) -> RunState:
        self._pay()
        self._owed.append(lambda: self._ledger.advance_mark(run_id, holder, epoch, used))
        return self._ledger.run(run_id)

    def __getattr__(self, name: str) -> Any:
        self._pay()
        return getattr(self._ledger, name)

    def _pay(self) -> None:
        while self._owed:
            self._owed.pop(0)()


class ChecksThenActs:
    """Asks whether a run fits, and then writes it without asking again."""

    def __init__(self, ledger: Ledger, racers: int) -> None:
        self._ledger = ledger
        self._together = threading.Barrier(racers)

    def open_run(self, opening: RunOpening, holder: str) -> RunState:
        numbers = self._ledger.account(opening.dataset).numbers(opening.declared)
        if numbers.asked > numbers.budget:
            raise BudgetExhausted(numbers)
        self._together.wait()  # what an unlucky scheduler does
        return self._ledger.open_run(opening, holder)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)
