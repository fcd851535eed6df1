"""What every ledger promises; one three-line subclass for each implementation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest

from curator.accounting.cost import Cost, event_cost
from curator.accounting.rule import BudgetRule
from curator.errors import BudgetExhausted, RunClosed, UnknownDataset, UnknownRun
from curator.ledger.chain import GENESIS
from curator.ledger.ledger import (
    DatasetExists,
    DatasetRegistration,
    HolderLost,
    Ledger,
    LedgerConflict,
    RunExists,
    RunOpening,
    RunStatus,
)
from curator.privacy.adjacency import Adjacency, Relation, Unit
from curator.privacy.budget import Budget
from curator.privacy.event import GaussianEvent, NoEvent, PrivacyEvent, SampledGaussianEvent
from curator.privacy.event import SamplingRate as Rate

BUDGET = Budget(epsilon=3.0, delta=1e-6)
STEP = SampledGaussianEvent(sampling_rate=Rate.at_least(0.01), noise_multiplier=1.0)
SETUP = GaussianEvent(noise_multiplier=8.0)


def registration(name: str = "d", budget: Budget = BUDGET) -> DatasetRegistration:
    adjacency = Adjacency(relation=Relation.ADD_OR_REMOVE, unit=Unit.RECORD)
    return DatasetRegistration(name=name, budget=budget, adjacency=adjacency, facts_json="{}")


def opening(
    run_id: str = "r",
    num_steps: int = 10,
    *,
    dataset: str = "d",
    analyst: str = "ann",
    setup: PrivacyEvent | None = None,
    step: PrivacyEvent = STEP,
) -> RunOpening:
    return RunOpening.of_events(
        run_id=run_id,
        dataset=dataset,
        analyst=analyst,
        mechanism="m",
        parameters_json='{"z":1}',
        setup_event=setup or NoEvent(),
        step_event=step,
        num_steps=num_steps,
    )


def most_steps(setup: PrivacyEvent | None = None) -> int:
    """The exact number of steps that an unused data set affords."""
    first = event_cost(setup or NoEvent())
    return BudgetRule.register(BUDGET).affordable_steps(Cost.zero(), first, event_cost(STEP), 10**7)


class LedgerContract:
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

    @pytest.mark.parametrize("budget", [BUDGET, Budget(epsilon=9.0, delta=1e-6)])
    def test_a_budget_is_fixed_once(self, budget: Budget) -> None:
        with pytest.raises(DatasetExists):
            self.ledger.register_dataset(registration(budget=budget))
        assert self.ledger.head()[0] == 1

    def test_unknown_names(self) -> None:
        for ask in (self.ledger.dataset, self.ledger.statement, self.ledger.account):
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
        assert self.ledger.runs() == ()

    def test_one_cap_over_all_analysts(self) -> None:
        self.ledger.open_run(opening("a", most_steps() // 2, analyst="ann"), "h")
        with pytest.raises(BudgetExhausted):
            self.ledger.open_run(opening("b", most_steps() // 2 + 2, analyst="bob"), "h")

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
        asked = self.ledger.would_reserve("d", opening("r", 50).declared).asked
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
        share, racers = 25, 40
        fits = most_steps() // share
        assert 0 < fits < racers
        start = threading.Barrier(8)

        def race(first: int) -> int:
            start.wait()
            granted = 0
            for i in range(first, racers, 8):
                try:
                    self.ledger.open_run(opening(f"r{i}", most_steps() // 10), f"h{first}")
                    granted += 1
                except BudgetExhausted:
                    pass
            return granted

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(race, range(8))) == most_steps() // (most_steps() // 10)
        assert self.ledger.statement("d").reserved_epsilon <= BUDGET.epsilon
        self.ledger.verify()

    # The mark

    def test_the_mark_counts_as_spent(self) -> None:
        self.ledger.open_run(opening(), "h")
        assert self.ledger.advance_mark("r", "h", 1, 4).used == 4
        rule = self.ledger.dataset("d").rule
        assert self.ledger.statement("d").spent_epsilon == rule.spent_epsilon(event_cost(STEP) * 4)

    def test_the_mark_never_falls_and_repeats_for_nothing(self) -> None:
        self.ledger.open_run(opening(), "h")
        self.ledger.advance_mark("r", "h", 1, 4)
        before = self.ledger.head()
        self.ledger.advance_mark("r", "h", 1, 4)
        assert self.ledger.head() == before
        for used in (3, -1, 4.5):
            with pytest.raises(LedgerConflict):
                self.ledger.advance_mark("r", "h", 1, used)  # type: ignore[arg-type]

    def test_no_step_past_the_declared_ones(self) -> None:
        self.ledger.open_run(opening(num_steps=10), "h")
        self.ledger.advance_mark("r", "h", 1, 10)
        with pytest.raises(RunClosed):
            self.ledger.advance_mark("r", "h", 1, 11)

    @pytest.mark.parametrize(("holder", "epoch"), [("other", 1), ("h", 2), ("h", 0)])
    def test_only_the_holder_in_its_epoch_changes_a_run(self, holder: str, epoch: int) -> None:
        self.ledger.open_run(opening(setup=SETUP), "h")
        before = self.ledger.head()
        with pytest.raises(HolderLost):
            self.ledger.begin_setup("r", holder, epoch)
        with pytest.raises(HolderLost):
            self.ledger.store_setup("r", holder, epoch, b"x")
        with pytest.raises(HolderLost):
            self.ledger.advance_mark("r", holder, epoch, 0)
        with pytest.raises(HolderLost):
            self.ledger.close_run("r", holder, epoch, 0, "")
        assert self.ledger.head() == before

    # Takeover

    def test_a_paused_holder_that_wakes_up_can_do_nothing(self) -> None:
        self.ledger.open_run(opening(), "h")
        self.ledger.advance_mark("r", "h", 1, 6)
        adopted = self.ledger.adopt_run("r", "new")
        assert (adopted.holder, adopted.epoch, adopted.used) == ("new", 2, 6)
        with pytest.raises(HolderLost):
            self.ledger.close_run("r", "h", 1, 0, "refund")
        with pytest.raises(HolderLost):
            self.ledger.advance_mark("r", "h", 1, 7)
        assert self.ledger.advance_mark("r", "new", 2, 7).used == 7

    def test_the_same_holder_that_adopts_again_has_a_new_epoch(self) -> None:
        self.ledger.open_run(opening(), "h")
        assert self.ledger.adopt_run("r", "h").epoch == 2
        with pytest.raises(HolderLost):
            self.ledger.advance_mark("r", "h", 1, 1)

    def test_after_a_takeover_the_mark_is_not_refunded(self) -> None:
        self.ledger.open_run(opening(), "h")
        self.ledger.advance_mark("r", "h", 1, 6)
        self.ledger.adopt_run("r", "new")
        self.ledger.advance_mark("r", "new", 2, 9)
        with pytest.raises(LedgerConflict):
            self.ledger.close_run("r", "new", 2, 5, "")
        assert self.ledger.close_run("r", "new", 2, 6, "").used == 6

    # Closing

    @pytest.mark.parametrize("used", [0, 3, 6])
    def test_a_close_refunds_exactly_what_was_not_used(self, used: int) -> None:
        self.ledger.open_run(opening(), "h")
        self.ledger.advance_mark("r", "h", 1, 6)
        closed = self.ledger.close_run("r", "h", 1, used, "finished")
        assert (closed.status, closed.close_reason) == (RunStatus.CLOSED, "finished")
        account = self.ledger.account("d")
        assert account.spent == account.reserved == event_cost(STEP) * used
        if not used:
            assert self.ledger.statement("d").spent_epsilon == 0.0

    @pytest.mark.parametrize("used", [-1, 7, 11])
    def test_a_close_cannot_leave_the_mark_behind(self, used: int) -> None:
        self.ledger.open_run(opening(), "h")
        self.ledger.advance_mark("r", "h", 1, 6)
        with pytest.raises(LedgerConflict):
            self.ledger.close_run("r", "h", 1, used, "")

    def test_a_closed_run_stays_closed(self) -> None:
        self.ledger.open_run(opening(setup=SETUP), "h")
        self.ledger.close_run("r", "h", 1, 0, "")
        before = self.ledger.head()
        calls: list[Callable[[], object]] = [
            lambda: self.ledger.adopt_run("r", "h"),
            lambda: self.ledger.advance_mark("r", "h", 1, 1),
            lambda: self.ledger.begin_setup("r", "h", 1),
            lambda: self.ledger.store_setup("r", "h", 1, b""),
            lambda: self.ledger.close_run("r", "h", 1, 0, ""),
        ]
        for call in calls:
            with pytest.raises(RunClosed):
                call()
        assert self.ledger.head() == before

    def test_a_refund_can_be_used_again_and_no_more(self) -> None:
        most = most_steps()
        self.ledger.open_run(opening("r", most), "h")
        self.ledger.advance_mark("r", "h", 1, 10)
        self.ledger.close_run("r", "h", 1, 7, "")
        with pytest.raises(BudgetExhausted):
            self.ledger.open_run(opening("s", most - 6), "h")
        self.ledger.open_run(opening("s", most - 7), "h")

    # Setup

    def test_a_setup_is_spent_once_begun_and_never_refunded(self) -> None:
        self.ledger.open_run(opening(setup=SETUP), "h")
        assert self.ledger.account("d").spent.is_zero
        self.ledger.begin_setup("r", "h", 1)
        assert self.ledger.account("d").spent == event_cost(SETUP)
        self.ledger.close_run("r", "h", 1, 0, "")
        account = self.ledger.account("d")
        assert account.spent == account.reserved == event_cost(SETUP)

    def test_a_setup_that_never_began_is_refunded(self) -> None:
        self.ledger.open_run(opening(setup=SETUP), "h")
        self.ledger.close_run("r", "h", 1, 0, "")
        assert self.ledger.account("d").reserved.is_zero

    def test_a_setup_begins_once_even_after_a_takeover(self) -> None:
        self.ledger.open_run(opening(setup=SETUP), "h")
        self.ledger.begin_setup("r", "h", 1)
        with pytest.raises(LedgerConflict):
            self.ledger.begin_setup("r", "h", 1)
        self.ledger.adopt_run("r", "new")
        with pytest.raises(LedgerConflict):
            self.ledger.begin_setup("r", "new", 2)

    def test_a_setup_is_stored_once_and_after_it_began(self) -> None:
        self.ledger.open_run(opening(setup=SETUP), "h")
        assert self.ledger.setup_payload("r") is None
        with pytest.raises(LedgerConflict):
            self.ledger.store_setup("r", "h", 1, b"early")
        self.ledger.begin_setup("r", "h", 1)
        assert self.ledger.setup_payload("r") is None
        self.ledger.store_setup("r", "h", 1, b"bytes")
        with pytest.raises(LedgerConflict):
            self.ledger.store_setup("r", "h", 1, b"again")
        assert self.ledger.setup_payload("r") == b"bytes"
        self.ledger.verify()

    def test_no_step_before_a_setup_that_costs(self) -> None:
        self.ledger.open_run(opening(setup=SETUP), "h")
        with pytest.raises(LedgerConflict):
            self.ledger.advance_mark("r", "h", 1, 1)
        self.ledger.begin_setup("r", "h", 1)
        self.ledger.advance_mark("r", "h", 1, 1)

    def test_setup_and_steps_are_reserved_together(self) -> None:
        with pytest.raises(BudgetExhausted):
            self.ledger.open_run(opening("r", most_steps(SETUP) + 1, setup=SETUP), "h")
        self.ledger.open_run(opening("r", most_steps(SETUP), setup=SETUP), "h")

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

    def test_racing_marks_all_count(self) -> None:
        self.ledger.open_run(opening(num_steps=200), "h")

        def advance(used: int) -> None:
            with suppress(LedgerConflict):
                self.ledger.advance_mark("r", "h", 1, used)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(advance, range(1, 101)))
        assert self.ledger.run("r").used == 100
        self.ledger.verify()
