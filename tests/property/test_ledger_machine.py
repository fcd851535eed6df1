"""Any sequence of calls, crashes and clock jumps: the ledgers say what the model says.

WEIR_PROFILE=full runs 500 examples for each ledger, the default a few.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from curator.accounting.cost import event_cost, total_cost
from curator.errors import CuratorError
from curator.ledger.entries import CapLowered, ShareSet, SpendAdded, StatusSet
from curator.ledger.ledger import DatasetStatus, Ledger, LedgerConflict, RunStatus
from curator.ledger.memory import MemoryLedger
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.ledger_values import BUDGET, SETUP, STEP, most_steps, opening, registration
from tests.contract.postgres_server import postgres_or_skip
from tests.fakes.clock import FakeClock
from tests.property.model_ledger import ModelLedger

FULL: Final = os.environ.get("WEIR_PROFILE") == "full"
SETTINGS: Final = settings(
    max_examples=500 if FULL else 15, stateful_step_count=30, deadline=None, print_blob=True
)
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the disk's durability is not the subject

OWNERS: Final = {"r": "ann", "s": "bob", "t": "ann", "u": "bob"}
names = st.sampled_from(["r", "s", "t", "u"])
holders = st.sampled_from(["h", "g"])
counts = st.integers(1, 12) | st.sampled_from([most_steps() // 2, most_steps()])


class LedgerMachine(RuleBasedStateMachine):
    """The rules; a subclass says which ledger and what a crash does to it."""

    tickets: Bundle[tuple[str, str, int]] = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.model = ModelLedger()
        self.ledger = self.create()

    def create(self) -> Ledger:
        return MemoryLedger(self.clock)

    def same(self, expected: str, call: Callable[[], object]) -> None:
        """Both say yes, or both refuse for the same reason and nothing is written."""
        before, refused = self.ledger.head(), ""
        try:
            call()
        except (CuratorError, LedgerConflict) as refusal:
            refused = type(refusal).__name__.replace("Allotment", "Budget")  # a share may say it
        assert refused == expected
        assert not refused or self.ledger.head() == before

    @initialize(shared=st.booleans())
    def register(self, shared: bool) -> None:
        self.ledger.register_dataset(registration())
        if shared:  # as wide as the budget: it refuses nothing that the budget would not
            self.ledger.decide(ShareSet(dataset="d", analyst="ann", epsilon=BUDGET.epsilon))

    @rule(target=tickets, name=names, steps=counts, setup=st.booleans(), holder=holders)
    def open(self, name: str, steps: int, setup: bool, holder: str) -> tuple[str, str, int]:
        asked = opening(name, steps, setup=SETUP if setup else None, analyst=OWNERS[name])
        expected = self.model.open(name, steps, setup, holder)
        self.same(expected, lambda: self.ledger.open_run(asked, holder))
        return name, holder, 1

    @rule(target=tickets, ticket=tickets, holder=holders)
    def adopt(self, ticket: tuple[str, str, int], holder: str) -> tuple[str, str, int]:
        name = ticket[0]
        if name not in self.model.runs:
            return ticket
        self.same(self.model.adopt(name, holder), lambda: self.ledger.adopt_run(name, holder))
        return name, holder, self.model.runs[name].epoch

    @rule(ticket=tickets, below=st.integers(-1, 5))
    def relinquish(self, ticket: tuple[str, str, int], below: int) -> None:
        if ticket[0] in self.model.runs:
            used = self.model.runs[ticket[0]].used - below
            expected = self.model.relinquish(*ticket, used)
            self.same(expected, lambda: self.ledger.relinquish_run(*ticket, used))

    @rule(ticket=tickets, by=st.integers(-1, 12))
    def advance(self, ticket: tuple[str, str, int], by: int) -> None:
        if ticket[0] in self.model.runs:
            used = self.model.runs[ticket[0]].used + by
            expected = self.model.advance(*ticket, used)
            self.same(expected, lambda: self.ledger.advance_mark(*ticket, used))

    @rule(ticket=tickets)
    def begin(self, ticket: tuple[str, str, int]) -> None:
        if ticket[0] in self.model.runs:
            self.same(self.model.begin(*ticket), lambda: self.ledger.begin_setup(*ticket))

    @rule(ticket=tickets, payload=st.binary(max_size=4))
    def store(self, ticket: tuple[str, str, int], payload: bytes) -> None:
        if ticket[0] in self.model.runs:
            expected = self.model.store(*ticket, payload)
            self.same(expected, lambda: self.ledger.store_setup(*ticket, payload))

    @rule(ticket=consumes(tickets) | tickets, below=st.integers(-1, 5))
    def close(self, ticket: tuple[str, str, int], below: int) -> None:
        if ticket[0] in self.model.runs:
            used = self.model.runs[ticket[0]].used - below
            expected = self.model.close(*ticket, used)
            self.same(expected, lambda: self.ledger.close_run(*ticket, used, "done"))

    @rule(epsilon=st.sampled_from([0.5, 1.0, 1.8, 2.2, 2.6, 3.0]))
    def lower_the_cap(self, epsilon: float) -> None:
        decision = CapLowered(dataset="d", epsilon=epsilon, reason="test")
        self.same(self.model.lower(epsilon), lambda: self.ledger.decide(decision))

    @rule(status=st.sampled_from(["active", "active", "active", "paused", "retired"]))
    def turn(self, status: str) -> None:
        decision = StatusSet(dataset="d", status=DatasetStatus(status), reason="test")
        self.same(self.model.turn(status), lambda: self.ledger.decide(decision))

    @rule(steps=st.integers(1, 3))
    def add_spend(self, steps: int) -> None:
        cost = event_cost(STEP) * steps
        self.ledger.decide(SpendAdded(dataset="d", cost=cost, reason="test"))
        self.model.added += steps

    @rule(seconds=st.floats(-1e8, 1e8))
    def jump(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def crash(self) -> None:
        self.ledger.verify()

    @invariant()
    def shows_what_the_model_shows(self) -> None:
        assert {run.run_id for run in self.ledger.runs()} == set(self.model.runs)
        for name, told in self.model.runs.items():
            run = self.ledger.run(name)
            assert (run.used, run.answered, run.is_open) == (told.used, told.answered, told.open)
            assert (run.holder, run.epoch) == (told.holder, told.epoch)
            assert self.ledger.setup_payload(name) == told.payload

    @invariant()
    def counts_what_the_model_counts(self) -> None:
        account = self.ledger.account("d")
        for total, reserved in ((account.spent, False), (account.reserved, True)):
            uses = [run.uses(reserved=reserved) for run in self.model.runs.values()]
            setups, steps = sum(s for s, _ in uses), sum(n for _, n in uses)
            steps += self.model.added
            assert total == event_cost(SETUP) * setups + event_cost(STEP) * steps

    @invariant()
    def running_totals_are_the_sums_over_all_runs(self) -> None:
        runs, account = list(self.ledger.runs()), self.ledger.account("d")
        added = self.ledger.dataset("d").added
        assert account.spent == added + total_cost(u for run in runs for u in run.spent_uses)
        assert account.reserved == added + total_cost(u for run in runs for u in run.reserved_uses)
        for analyst in ("ann", "bob"):
            theirs = [run for run in runs if run.analyst == analyst]
            share = self.ledger.share("d", analyst)
            if share is not None:
                assert share.spent == total_cost(u for run in theirs for u in run.spent_uses)
                assert share.reserved == total_cost(u for run in theirs for u in run.reserved_uses)
            closed = [run for run in reversed(theirs) if not run.is_open]
            assert self.ledger.num_closed(analyst) == len(closed)
            assert list(self.ledger.latest_runs(2, analyst, RunStatus.CLOSED)) == closed[:2]
            still = [run for run in theirs if run.is_open]
            assert list(self.ledger.open_runs("d", analyst)) == still

    def teardown(self) -> None:
        self.ledger.verify()


class SqlMachine(LedgerMachine):
    """A crash leaves the files as they are at that moment."""

    def create(self) -> Ledger:
        shared = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="weir-machine-", dir=shared))
        self.file = self.folder / "0.sqlite"
        self.opened = SqlLedger.open_writer(self.file, self.clock)
        return self.opened

    @rule()
    def crash(self) -> None:
        after = self.folder / f"{int(self.file.stem) + 1}.sqlite"
        for suffix in ("", "-wal"):
            left = self.file.with_name(self.file.name + suffix)
            if left.exists():
                shutil.copy(left, after.with_name(after.name + suffix))
        self.opened.close()
        self.file = after
        self.ledger = self.opened = SqlLedger.open_writer(after, self.clock)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.opened.close()
            shutil.rmtree(self.folder)


class PostgresMachine(LedgerMachine):
    """A crash leaves what was committed; another process opens it."""

    def create(self) -> Ledger:
        self.url = postgres_or_skip().fresh()
        self.opened = SqlLedger.open_database(self.url, self.clock)
        return self.opened

    @rule()
    def crash(self) -> None:
        self.opened.close()
        self.ledger = self.opened = SqlLedger.open_database(self.url, self.clock)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.opened.close()


TestMemoryLedgerMachine = LedgerMachine.TestCase
TestMemoryLedgerMachine.settings = settings(SETTINGS, max_examples=500 if FULL else 25)
TestSqlLedgerMachine = SqlMachine.TestCase
TestSqlLedgerMachine.settings = SETTINGS
TestPostgresLedgerMachine = PostgresMachine.TestCase
TestPostgresLedgerMachine.settings = settings(SETTINGS, max_examples=100 if FULL else 4)
