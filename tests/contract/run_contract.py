"""The life of one run: mark, takeover, close and setup; a part of the ledger's contract."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from curator.accounting.cost import event_cost
from curator.errors import BudgetExhausted, RunClosed
from curator.ledger.ledger import HolderLost, Ledger, LedgerConflict, RunStatus
from tests.contract.ledger_values import SETUP, STEP, most_steps, opening


class RunContract:
    """What every ledger promises about the life of one run."""

    ledger: Ledger

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
            self.ledger.relinquish_run("r", holder, epoch, 0)
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

    # Letting go

    @pytest.mark.parametrize("used", [0, 3, 6])
    def test_a_relinquished_run_stays_open_and_has_spent_what_was_begun(self, used: int) -> None:
        self.ledger.open_run(opening(num_steps=10), "h")
        self.ledger.advance_mark("r", "h", 1, 6)
        left = self.ledger.relinquish_run("r", "h", 1, used)
        assert (left.used, left.is_open, left.holder) == (used, True, "")
        account = self.ledger.account("d")
        assert account.spent == event_cost(STEP) * used
        assert account.reserved == event_cost(STEP) * 10
        adopted = self.ledger.adopt_run("r", "new")
        assert (adopted.used, adopted.answered, adopted.epoch) == (used, used, 2)
        self.ledger.verify()

    @pytest.mark.parametrize("holder", ["h", ""])
    def test_nobody_can_use_what_was_relinquished_without_adopting_it(self, holder: str) -> None:
        self.ledger.open_run(opening(setup=SETUP), "h")
        self.ledger.begin_setup("r", "h", 1)
        self.ledger.advance_mark("r", "h", 1, 6)
        self.ledger.relinquish_run("r", "h", 1, 4)
        before = self.ledger.head()
        calls: list[Callable[[], object]] = [
            lambda: self.ledger.advance_mark("r", holder, 1, 6),
            lambda: self.ledger.advance_mark("r", holder, 1, 4),
            lambda: self.ledger.store_setup("r", holder, 1, b"x"),
            lambda: self.ledger.relinquish_run("r", holder, 1, 4),
            lambda: self.ledger.close_run("r", holder, 1, 4, ""),
        ]
        for call in calls:
            with pytest.raises(HolderLost):
                call()
        assert self.ledger.head() == before
        assert self.ledger.adopt_run("r", "h").epoch == 2

    @pytest.mark.parametrize("used", [-1, 3, 8, 5.5])
    def test_neither_what_was_answered_before_nor_more_than_the_mark(self, used: int) -> None:
        self.ledger.open_run(opening(), "h")
        self.ledger.advance_mark("r", "h", 1, 4)
        self.ledger.adopt_run("r", "new")
        self.ledger.advance_mark("r", "new", 2, 7)
        with pytest.raises(LedgerConflict):
            self.ledger.relinquish_run("r", "new", 2, used)
        assert self.ledger.run("r").used == 7

    def test_what_two_holders_began_in_turn_all_counts(self) -> None:
        self.ledger.open_run(opening(num_steps=10), "h")
        for epoch, (mark, used) in enumerate([(6, 2), (5, 4), (10, 7)], start=1):
            self.ledger.advance_mark("r", "h", epoch, mark)
            self.ledger.relinquish_run("r", "h", epoch, used)
            self.ledger.adopt_run("r", "h")
        with pytest.raises(LedgerConflict):
            self.ledger.close_run("r", "h", 4, 6, "")
        assert self.ledger.close_run("r", "h", 4, 7, "").used == 7
        assert self.ledger.account("d").reserved == event_cost(STEP) * 7
        self.ledger.verify()

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
            lambda: self.ledger.relinquish_run("r", "h", 1, 0),
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

    def test_racing_marks_all_count(self) -> None:
        self.ledger.open_run(opening(num_steps=200), "h")

        def advance(used: int) -> None:
            with suppress(LedgerConflict):
                self.ledger.advance_mark("r", "h", 1, used)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(advance, range(1, 101)))
        assert self.ledger.run("r").used == 100
        self.ledger.verify()
