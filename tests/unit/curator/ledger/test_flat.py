"""What a call asks of the database does not grow with the runs that were closed before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from curator.accounting.events.gaussian import GaussianEvent
from curator.ledger.anchor import HeadAnchor
from curator.ledger.datasets_and_runs import RunStatus
from curator.ledger.entries import CapLowered, ShareSet
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.ledger_values import opening, registration
from tests.contract.postgres_server import postgres_or_skip
from tests.fakes.clock import FakeClock
from tests.unit.curator.ledger.work import read_whole, work_of

FEW, MANY = 12, 240
CHEAP = [GaussianEvent(noise_multiplier=1e4 + number) for number in range(MANY)]
"""No two runs cost the same, so nothing is saved by counting equal costs."""


def run(ledger: SqlLedger, number: int) -> str:
    name = f"r{number}"
    analyst = ("ann", "bob")[number % 2]
    ledger.open_run(opening(name, 4, analyst=analyst, step=CHEAP[number % MANY]), "h")
    return name


def close_runs(ledger: SqlLedger, first: int, last: int) -> None:
    for number in range(first, last):
        name = run(ledger, number)
        ledger.advance_mark(name, "h", 1, 2)
        ledger.close_run(name, "h", 1, 1, "done")


def calls(ledger: SqlLedger, number: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every call of a curator that serves, on a new run."""
    name = f"r{number}"
    yield "open", lambda: run(ledger, number)
    yield "charge", lambda: ledger.advance_mark(name, "h", 1, 2)
    yield "relinquish", lambda: ledger.relinquish_run(name, "h", 1, 1)
    yield "adopt", lambda: ledger.adopt_run(name, "h")
    yield "close", lambda: ledger.close_run(name, "h", 2, 1, "done")
    yield "find", lambda: ledger.run(name)
    yield "budget", lambda: ledger.statement("d")
    yield "account", lambda: ledger.account("d")
    yield "share", lambda: ledger.share("d", "ann")
    yield "spends", lambda: ledger.spends("d")
    yield "open runs", lambda: ledger.open_runs(analyst="ann")
    yield "latest", lambda: ledger.latest_runs(5, "ann", RunStatus.CLOSED)
    yield "page", lambda: ledger.latest_runs(5, before="r8")
    yield "closed", lambda: ledger.num_closed("ann")
    yield "head", ledger.head


def make(ledger: SqlLedger) -> SqlLedger:
    ledger.register_dataset(registration())
    ledger.decide(CapLowered(dataset="d", epsilon=2.9, reason="so that charges are checked"))
    ledger.decide(ShareSet(dataset="d", analyst="ann", epsilon=2.0))
    return ledger


def test_no_call_looks_at_more_rows_after_more_closed_runs(tmp_path: Path) -> None:
    anchor = HeadAnchor(tmp_path / "head.json")
    path = tmp_path / "ledger.sqlite"
    ledger, clock, found = make(SqlLedger.open_writer(path, FakeClock(), anchor)), 0, {}
    for closed in (FEW, MANY):
        close_runs(ledger, clock, closed)
        clock = closed + 1
        found[closed] = {name: work_of(ledger, call) for name, call in calls(ledger, closed)}
    ledger.close()
    for name, few in found[FEW].items():
        many = found[MANY][name]
        assert len(many.statements) == len(few.statements), name
        assert 0 < many.steps <= 1.5 * few.steps, (name, few.steps, many.steps)


def test_an_index_answers_each_call_in_postgresql() -> None:
    ledger = make(SqlLedger.open_database(postgres_or_skip().fresh(), FakeClock()))
    close_runs(ledger, 0, FEW)
    for name, call in calls(ledger, FEW):
        work = work_of(ledger, call)
        with ledger._store.reading() as connection:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            for statement, parameters in zip(work.statements, work.parameters, strict=True):
                if statement.startswith("SELECT"):
                    plan = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
                    tables = read_whole("\n".join(plan.scalars()))
                    assert not {"runs", "entries", "setup_payloads"} & set(tables), (name, tables)
    ledger.close()
