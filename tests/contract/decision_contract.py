"""What every ledger promises about the steward's decisions; part of `LedgerContract`."""

from __future__ import annotations

import pytest

from curator.accounting.cost import event_cost
from curator.errors import (
    AllotmentExhausted,
    BudgetExhausted,
    DatasetPaused,
    DatasetRetired,
    UnknownDataset,
)
from curator.ledger.entries import CapLowered, PolicySet, ShareSet, SpendAdded, StatusSet, decode
from curator.ledger.ledger import DatasetStatus, Ledger, LedgerConflict
from tests.contract.ledger_values import BUDGET, SETUP, STEP, most_steps, opening


def status(to: DatasetStatus) -> StatusSet:
    return StatusSet(dataset="d", status=to, reason="test")


class DecisionContract:
    ledger: Ledger

    # Erased before anything was asked

    def test_that_nothing_was_asked_is_written_where_no_run_was_opened(self) -> None:
        never = StatusSet(dataset="d", status=DatasetStatus.ERASED, reason="typo", asked=False)
        assert self.ledger.decide(never).status is DatasetStatus.ERASED
        (*_, last) = self.ledger.entries()
        assert decode(last.kind, last.body) == never
        self.ledger.verify()
        with pytest.raises(DatasetRetired):
            self.ledger.open_run(opening("r", 1), "h")

    def test_that_nothing_was_asked_is_not_written_where_a_run_was_opened(self) -> None:
        self.ledger.open_run(opening("r", 1), "h")
        never = StatusSet(dataset="d", status=DatasetStatus.ERASED, reason="typo", asked=False)
        for is_closed in (False, True):
            if is_closed:
                self.ledger.close_run("r", "h", 1, 0, "no step")
            before = self.ledger.head()
            with pytest.raises(LedgerConflict, match="a run was opened"):
                self.ledger.decide(never)
            assert self.ledger.head() == before
        assert self.ledger.decide(status(DatasetStatus.ERASED)).status is DatasetStatus.ERASED

    def test_that_nothing_was_asked_is_not_written_of_what_may_be_forgotten(self) -> None:
        cost = event_cost(STEP)
        self.ledger.decide(SpendAdded(dataset="d", cost=cost, reason="restored"))
        never = StatusSet(dataset="d", status=DatasetStatus.ERASED, reason="typo", asked=False)
        with pytest.raises(LedgerConflict, match="a run was opened"):
            self.ledger.decide(never)

    def test_that_nothing_was_asked_is_written_of_erased_data_sets_only(self) -> None:
        for other in (DatasetStatus.PAUSED, DatasetStatus.RETIRED):
            with pytest.raises(LedgerConflict, match="only of an erased data set"):
                self.ledger.decide(StatusSet(dataset="d", status=other, reason="typo", asked=False))

    # Caps

    def test_a_lower_cap_holds_for_openings(self) -> None:
        self.ledger.open_run(opening("r", most_steps() // 2), "h")
        half = self.ledger.statement("d").reserved_epsilon
        self.ledger.decide(CapLowered(dataset="d", epsilon=half, reason="test"))
        with pytest.raises(BudgetExhausted) as refused:
            self.ledger.open_run(opening("s", 1), "h")
        assert refused.value.numbers.budget == half
        statement = self.ledger.statement("d")
        assert (statement.cap, statement.remaining_epsilon) == (half, 0.0)
        assert statement.budget == BUDGET

    def test_a_cap_below_what_is_spent_blocks_steps_and_unspends_nothing(self) -> None:
        self.ledger.open_run(opening("r", 100), "h")
        self.ledger.advance_mark("r", "h", 1, 50)
        spent = self.ledger.statement("d").spent_epsilon
        self.ledger.decide(CapLowered(dataset="d", epsilon=spent / 2, reason="test"))
        before = self.ledger.head()
        with pytest.raises(BudgetExhausted) as refused:
            self.ledger.advance_mark("r", "h", 1, 51)
        assert refused.value.numbers.spent == spent
        assert self.ledger.head() == before
        assert self.ledger.advance_mark("r", "h", 1, 50).used == 50
        assert self.ledger.close_run("r", "h", 1, 50, "done").used == 50
        assert self.ledger.statement("d").spent_epsilon == spent

    def test_a_cap_between_spent_and_reserved_is_reached_exactly(self) -> None:
        self.ledger.open_run(opening("r", 100), "h")
        cap = self.ledger.account("d").rule.spent_epsilon(event_cost(STEP) * 70)
        self.ledger.decide(CapLowered(dataset="d", epsilon=cap, reason="test"))
        with pytest.raises(BudgetExhausted):
            self.ledger.advance_mark("r", "h", 1, 71)
        self.ledger.advance_mark("r", "h", 1, 70)

    def test_a_cap_below_a_setup_blocks_it(self) -> None:
        self.ledger.open_run(opening("r", 10, setup=SETUP), "h")
        self.ledger.decide(CapLowered(dataset="d", epsilon=0.01, reason="test"))
        with pytest.raises(BudgetExhausted):
            self.ledger.begin_setup("r", "h", 1)

    @pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), 3.0000001, float("inf")])
    def test_a_cap_only_falls(self, epsilon: float) -> None:
        with pytest.raises(LedgerConflict):
            self.ledger.decide(CapLowered(dataset="d", epsilon=epsilon, reason="test"))
        assert self.ledger.head()[0] == 1

    def test_a_lowered_cap_does_not_rise_again(self) -> None:
        self.ledger.decide(CapLowered(dataset="d", epsilon=1.0, reason="test"))
        with pytest.raises(LedgerConflict):
            self.ledger.decide(CapLowered(dataset="d", epsilon=BUDGET.epsilon, reason="test"))

    # Shares of analysts

    def test_a_share_binds_its_analyst_alone(self) -> None:
        self.ledger.decide(ShareSet(dataset="d", analyst="ann", epsilon=2.5))
        share = self.ledger.share("d", "ann")
        assert share is not None
        most = share.rule.affordable_steps(
            share.reserved, event_cost(STEP) * 0, event_cost(STEP), 10**7
        )
        with pytest.raises(AllotmentExhausted) as refused:
            self.ledger.open_run(opening("r", most + 1), "h")
        assert refused.value.numbers.budget == 2.5
        self.ledger.open_run(opening("r", most), "h")
        self.ledger.open_run(opening("s", most + 1, analyst="bob"), "h")
        assert self.ledger.share("d", "bob") is None

    def test_closed_runs_count_for_a_share(self) -> None:
        self.ledger.open_run(opening("r", 100), "h")
        self.ledger.open_run(opening("b", 7, analyst="bob"), "h")
        self.ledger.advance_mark("r", "h", 1, 60)
        self.ledger.close_run("r", "h", 1, 60, "done")
        self.ledger.decide(ShareSet(dataset="d", analyst="ann", epsilon=2.0))
        share = self.ledger.share("d", "ann")
        assert share is not None
        assert share.spent == share.reserved == event_cost(STEP) * 60

    def test_a_share_lowered_below_what_is_spent_blocks_steps(self) -> None:
        self.ledger.open_run(opening("r", 100), "h")
        self.ledger.advance_mark("r", "h", 1, 50)
        self.ledger.decide(ShareSet(dataset="d", analyst="ann", epsilon=0.01))
        with pytest.raises(AllotmentExhausted):
            self.ledger.advance_mark("r", "h", 1, 51)
        self.ledger.decide(ShareSet(dataset="d", analyst="ann", epsilon=BUDGET.epsilon))
        self.ledger.advance_mark("r", "h", 1, 51)

    def test_colluding_analysts_gain_nothing(self) -> None:
        for analyst in ("ann", "bob"):
            self.ledger.decide(ShareSet(dataset="d", analyst=analyst, epsilon=BUDGET.epsilon))
        self.ledger.open_run(opening("r", most_steps() // 2 + 1), "h")
        with pytest.raises(BudgetExhausted):
            self.ledger.open_run(opening("s", most_steps() // 2 + 1, analyst="bob"), "h")

    @pytest.mark.parametrize("epsilon", [0.0, float("nan"), 3.1])
    def test_a_share_is_within_the_budget(self, epsilon: float) -> None:
        with pytest.raises(LedgerConflict):
            self.ledger.decide(ShareSet(dataset="d", analyst="ann", epsilon=epsilon))

    # Life

    def test_a_paused_data_set_takes_no_charge_until_it_is_resumed(self) -> None:
        self.ledger.open_run(opening("r", 10, setup=SETUP), "h")
        self.ledger.decide(status(DatasetStatus.PAUSED))
        with pytest.raises(DatasetPaused):
            self.ledger.begin_setup("r", "h", 1)
        with pytest.raises(DatasetPaused):
            self.ledger.open_run(opening("s", 1), "h")
        self.ledger.decide(status(DatasetStatus.ACTIVE))
        self.ledger.begin_setup("r", "h", 1)
        self.ledger.decide(status(DatasetStatus.PAUSED))
        with pytest.raises(DatasetPaused):
            self.ledger.advance_mark("r", "h", 1, 1)
        assert self.ledger.adopt_run("r", "g").epoch == 2

    @pytest.mark.parametrize("end", [DatasetStatus.RETIRED, DatasetStatus.ERASED])
    def test_a_retired_data_set_never_comes_back(self, end: DatasetStatus) -> None:
        self.ledger.open_run(opening("r", 10), "h")
        self.ledger.decide(status(end))
        with pytest.raises(DatasetRetired):
            self.ledger.advance_mark("r", "h", 1, 1)
        with pytest.raises(DatasetRetired):
            self.ledger.open_run(opening("s", 1), "h")
        for back in (DatasetStatus.ACTIVE, DatasetStatus.PAUSED, end):
            with pytest.raises(LedgerConflict):
                self.ledger.decide(status(back))
        assert not self.ledger.close_run("r", "h", 1, 0, "retired").is_open

    @pytest.mark.parametrize(
        ("to", "error"),
        [
            (DatasetStatus.PAUSED, DatasetPaused),
            (DatasetStatus.RETIRED, DatasetRetired),
            (DatasetStatus.ERASED, DatasetRetired),
        ],
    )
    def test_what_a_stopped_data_set_released_too_late_is_not_kept(
        self, to: DatasetStatus, error: type[Exception]
    ) -> None:
        self.ledger.open_run(opening("r", 10, setup=SETUP), "h")
        self.ledger.begin_setup("r", "h", 1)
        self.ledger.decide(status(to))
        before = self.ledger.head(), self.ledger.statement("d").spent_epsilon
        with pytest.raises(error):
            self.ledger.store_setup("r", "h", 1, b"x")
        assert (self.ledger.head(), self.ledger.statement("d").spent_epsilon) == before
        assert self.ledger.setup_payload("r") is None
        self.ledger.close_run("r", "h", 1, 0, "ended")
        assert self.ledger.statement("d").spent_epsilon == before[1] > 0
        self.ledger.verify()

    # The rest

    def test_added_spend_counts_and_blocks(self) -> None:
        self.ledger.open_run(opening("r", 10), "h")
        cost = event_cost(STEP) * (most_steps() - 5)
        self.ledger.decide(SpendAdded(dataset="d", cost=cost, reason="restored"))
        assert self.ledger.account("d").spent == cost
        self.ledger.advance_mark("r", "h", 1, 5)
        with pytest.raises(BudgetExhausted):
            self.ledger.advance_mark("r", "h", 1, 6)

    def test_decisions_are_entries_that_verify(self) -> None:
        self.ledger.decide(PolicySet(dataset="d", policy_json='{"a":1}'))
        self.ledger.decide(ShareSet(dataset="d", analyst="zoe", epsilon=1.0))
        self.ledger.decide(ShareSet(dataset="d", analyst="ann", epsilon=2.0))
        self.ledger.decide(CapLowered(dataset="d", epsilon=2.5, reason="because"))
        self.ledger.decide(SpendAdded(dataset="d", cost=event_cost(STEP), reason="restored"))
        self.ledger.decide(status(DatasetStatus.PAUSED))
        state = self.ledger.dataset("d")
        assert state.policy_json == '{"a":1}'
        assert state.shares == (("ann", 2.0), ("zoe", 1.0))
        assert self.ledger.head()[0] == 7
        self.ledger.verify()

    def test_decisions_about_nothing(self) -> None:
        with pytest.raises(UnknownDataset):
            self.ledger.decide(PolicySet(dataset="nobody", policy_json="{}"))
