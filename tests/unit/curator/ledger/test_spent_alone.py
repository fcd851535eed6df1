"""What a run spent alone: exact for each, and computed once for all that were used alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from curator.accounting.cost import Cost
from curator.accounting.rule import BudgetRule, epsilon_of_uses
from curator.ledger.memory import MemoryLedger
from curator.privacy.budget import Budget
from tests.contract.ledger_values import SETUP, opening, registration
from tests.fakes.clock import FakeClock


def test_runs_that_were_used_alike_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = MemoryLedger(FakeClock())
    ledger.register_dataset(registration())
    state, used = ledger.dataset("d"), (40, 40, 30, 40, 30)
    for number, steps in enumerate(used):
        run_id = f"r{number}"
        ledger.open_run(opening(run_id, 40, setup=SETUP), "h")
        ledger.begin_setup(run_id, "h", 1)
        ledger.advance_mark(run_id, "h", 1, steps)
    runs = [ledger.run(f"r{number}") for number in range(len(used))]
    exact = [state.rule.spent_epsilon(run.spent) for run in runs]
    assert len(set(exact)) == 2
    asked: list[Cost] = []
    compute = BudgetRule.spent_epsilon

    def counted(rule: BudgetRule, total: Cost) -> float:
        asked.append(total)
        return compute(rule, total)

    monkeypatch.setattr(BudgetRule, "spent_epsilon", counted)
    epsilon_of_uses.cache_clear()
    assert [state.spent_alone(run) for run in runs] == exact
    assert len(asked) == 2
    stricter = replace(state, rule=BudgetRule.register(Budget(epsilon=1.0, delta=1e-9)))
    assert stricter.spent_alone(runs[0]) > exact[0]  # another rule is another computation
    assert len(asked) == 3


def test_what_is_remembered_is_bounded() -> None:
    assert epsilon_of_uses.cache_info().maxsize == 1024
