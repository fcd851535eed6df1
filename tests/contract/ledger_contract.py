"""What every ledger promises; one three-line subclass for each implementation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import pytest

from curator.accounting.cost import event_cost
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.rule import BudgetRule
from curator.errors import BudgetExhausted, UnknownDataset, UnknownRun
from curator.ledger.chain import GENESIS
from curator.ledger.entries import ShareSet
from curator.ledger.export import export_jsonl, verify_export
from curator.ledger.ledger import DatasetExists, Ledger, LedgerConflict, RunExists
from curator.privacy.budget import Budget
from tests.contract.decision_contract import DecisionContract
from tests.contract.ledger_values import BUDGET, SETUP, STEP, most_steps, opening, registration
from tests.contract.run_contract import RunContract


class LedgerContract(RunContract, DecisionContract):
    ledger: Ledger

    @pytest.fixture(autouse=True)
    def _registered(self, ledger: Ledger) -> None:
        self.ledger = ledger
        ledger.register_dataset(registration())

    # Data sets

    def test_a_data_set_is_shown_as_registered(self) -> None:
        assert self.ledger.dataset("d").registration == registration()
        assert self.ledger.dataset("d").rule == BudgetRule.register(BUDGET)
        self.ledger.register_dataset(registration("a"))
        assert [state.registration.name for state in self.ledger.datasets()] == ["a", "d"]

    def test_the_order_that_a_budget_favours_is_fixed_once(self) -> None:
        state = self.ledger.register_dataset(registration("e"), 2.5)
        rule = BudgetRule.register(BUDGET, 2.5)
        assert state.rule == self.ledger.dataset("e").rule == rule != BudgetRule.register(BUDGET)
        with pytest.raises(DatasetExists):
            self.ledger.register_dataset(registration("e"))
        with pytest.raises(ValueError, match="order 7 is none of"):
            self.ledger.register_dataset(registration("f"), 7.0)
        self.ledger.open_run(opening(num_steps=9, dataset="e"), "h")
        self.ledger.advance_mark("r", "h", 1, 4)
        spent = self.ledger.statement("e").spent_epsilon
        assert spent == rule.spent_epsilon(event_cost(STEP) * 4)
        self.ledger.decide(ShareSet(dataset="e", analyst="ann", epsilon=2.0))
        share = self.ledger.share("e", "ann")
        assert share is not None
        assert share.rule == BudgetRule.register(Budget(epsilon=2.0, delta=BUDGET.delta), 2.5)
        self.ledger.verify()
        _, totals = verify_export(export_jsonl(self.ledger)).totals
        assert (totals.dataset, totals.spent_epsilon) == ("e", spent)

    @pytest.mark.parametrize("budget", [BUDGET, Budget(epsilon=9.0, delta=1e-6)])
    def test_a_budget_is_fixed_once(self, budget: Budget) -> None:
        with pytest.raises(DatasetExists):
            self.ledger.register_dataset(registration(budget=budget))
        assert self.ledger.head()[0] == 1

    def test_unknown_names(self) -> None:
        for ask in (
            self.ledger.dataset,
            self.ledger.statement,
            self.ledger.account,
            self.ledger.spends,
        ):
            with pytest.raises(UnknownDataset):
                ask("nobody")
        with pytest.raises(UnknownDataset):
            self.ledger.open_run(opening(dataset="nobody"), "h")
        calls: list[Callable[[], object]] = [
            lambda: self.ledger.run("x"),
            lambda: self.ledger.setup_payload("x"),
            lambda: self.ledger.adopt_run("x", "h"),
            lambda: self.ledger.advance_mark("x", "h", 1, 1),
            lambda: self.ledger.begin_setup("x", "h", 1),
            lambda: self.ledger.store_setup("x", "h", 1, b""),
            lambda: self.ledger.close_run("x", "h", 1, 0, ""),
        ]
        for call in calls:
            with pytest.raises(UnknownRun):
                call()

    def test_nothing_spent_is_exactly_zero(self) -> None:
        statement = self.ledger.statement("d")
        assert (statement.spent_epsilon, statement.reserved_epsilon) == (0.0, 0.0)
        assert statement.remaining_epsilon == BUDGET.epsilon
        assert statement.open_runs == ()

    # Reservation

    def test_the_last_affordable_step_fits_and_one_more_does_not(self) -> None:
        most = most_steps()
        with pytest.raises(BudgetExhausted) as refused:
            self.ledger.open_run(opening("r", most + 1), "h")
        assert refused.value.numbers.asked > BUDGET.epsilon
        assert refused.value.numbers.remaining == BUDGET.epsilon
        self.ledger.open_run(opening("r", most), "h")
        assert self.ledger.statement("d").reserved_epsilon <= BUDGET.epsilon
        with pytest.raises(BudgetExhausted):
            self.ledger.open_run(opening("r2", 1), "h")

    def test_a_refusal_writes_nothing(self) -> None:
        before = self.ledger.head()
        with pytest.raises(BudgetExhausted):
            self.ledger.open_run(opening("r", most_steps() + 1), "h")
        assert self.ledger.head() == before
        assert list(self.ledger.runs()) == []

    def test_one_cap_over_all_analysts(self) -> None:
        self.ledger.open_run(opening("a", most_steps() // 2, analyst="ann"), "h")
        with pytest.raises(BudgetExhausted):
            self.ledger.open_run(opening("b", most_steps() // 2 + 2, analyst="bob"), "h")

    def test_who_spent_what_is_measured_alone_by_the_rule_of_the_data_set(self) -> None:
        self.ledger.register_dataset(registration("e"))
        self.ledger.open_run(opening("r", 40), "h")
        self.ledger.advance_mark("r", "h", 1, 20)
        self.ledger.open_run(opening("s", 30, analyst="bob"), "h")
        self.ledger.advance_mark("s", "h", 1, 30)
        self.ledger.close_run("s", "h", 1, 30, "done")
        self.ledger.open_run(opening("t", 10, dataset="e", analyst="bob"), "h")
        state, statement = self.ledger.dataset("d"), self.ledger.statement("d")
        ann, bob = self.ledger.spends("d")
        step = opening("r", 1).step
        assert (ann.analyst, bob.analyst) == ("ann", "bob")
        assert ann.spent_epsilon == state.rule.spent_epsilon(step * 20)
        assert ann.reserved_epsilon == state.rule.spent_epsilon(step * 40)
        assert bob.spent_epsilon == bob.reserved_epsilon == state.rule.spent_epsilon(step * 30)
        assert state.spent_alone(self.ledger.run("r")) == ann.spent_epsilon
        assert state.spent_alone(self.ledger.run("s")) == bob.spent_epsilon
        assert statement.spent_epsilon == state.rule.spent_epsilon(step * 50)
        assert max(ann.spent_epsilon, bob.spent_epsilon) < statement.spent_epsilon
        (other,) = self.ledger.spends("e")
        assert (other.analyst, other.spent_epsilon) == ("bob", 0.0)
        self.ledger.register_dataset(registration("f"))
        assert self.ledger.spends("f") == ()

    def test_data_sets_do_not_share(self) -> None:
        self.ledger.register_dataset(registration("e"))
        self.ledger.open_run(opening("r", most_steps()), "h")
        self.ledger.open_run(opening("s", most_steps(), dataset="e"), "h")

    def test_a_reservation_is_not_spent(self) -> None:
        self.ledger.open_run(opening("r", 100), "h")
        statement = self.ledger.statement("d")
        assert statement.spent_epsilon == 0.0
        assert statement.reserved_epsilon > 0.0
        assert statement.remaining_epsilon == BUDGET.epsilon - statement.reserved_epsilon
        assert [run.run_id for run in statement.open_runs] == ["r"]

    def test_a_dry_run_tells_what_opening_would_do(self) -> None:
        asked = self.ledger.account("d").numbers(opening("r", 50).declared).asked
        assert self.ledger.head()[0] == 1
        self.ledger.open_run(opening("r", 50), "h")
        assert self.ledger.statement("d").reserved_epsilon == asked

    def test_a_run_id_is_used_once(self) -> None:
        self.ledger.register_dataset(registration("e"))
        self.ledger.open_run(opening("r", 1), "h")
        for dataset in ("d", "e"):
            with pytest.raises(RunExists):
                self.ledger.open_run(opening("r", 1, dataset=dataset), "h")

    def test_a_cost_that_is_not_its_event_s_is_refused(self) -> None:
        cheaper = replace(opening(), step=event_cost(GaussianEvent(noise_multiplier=1e6)))
        with pytest.raises(LedgerConflict):
            self.ledger.open_run(cheaper, "h")

    def test_racing_openings_are_granted_exactly_the_cap(self) -> None:
        racers, share = 40, most_steps() // 10
        start = threading.Barrier(8)

        def race(first: int) -> int:
            start.wait()
            granted = 0
            for i in range(first, racers, 8):
                try:
                    self.ledger.open_run(opening(f"r{i}", share), f"h{first}")
                    granted += 1
                except BudgetExhausted:
                    pass
            return granted

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(race, range(8))) == most_steps() // share
        assert self.ledger.statement("d").reserved_epsilon <= BUDGET.epsilon
        self.ledger.verify()

    # Reading

    def test_runs_are_listed_in_order_and_by_owner(self) -> None:
        self.ledger.register_dataset(registration("e"))
        self.ledger.open_run(opening("z", 1), "h")
        self.ledger.open_run(opening("a", 1, analyst="bob"), "h")
        self.ledger.open_run(opening("m", 1, dataset="e"), "h")
        ids = [run.run_id for run in self.ledger.runs()]
        assert ids == ["z", "a", "m"]
        assert [run.run_id for run in self.ledger.runs(dataset="d")] == ["z", "a"]
        assert [run.run_id for run in self.ledger.runs("d", "bob")] == ["a"]

    def test_every_change_is_one_entry_of_the_chain(self) -> None:
        self.ledger.open_run(opening(setup=SETUP), "h")
        self.ledger.begin_setup("r", "h", 1)
        self.ledger.store_setup("r", "h", 1, b"x")
        self.ledger.advance_mark("r", "h", 1, 3)
        self.ledger.adopt_run("r", "g")
        self.ledger.close_run("r", "g", 2, 3, "done")
        lines = list(self.ledger.entries())
        assert [line.seq for line in lines] == list(range(1, 8))
        assert lines[0].previous == GENESIS
        assert all(b.previous == a.digest for a, b in pairwise(lines))
        assert self.ledger.head() == (7, lines[-1].digest)
        assert list(self.ledger.entries(after=5)) == lines[5:]
        self.ledger.verify()
