"""Upgrades happen at opening, whole or not at all, and lead to the tables of a new ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, column, insert, inspect, text
from sqlalchemy import table as sql_table

from curator.accounting.cost import Cost
from curator.accounting.orders import ORDERS
from curator.errors import LedgerUnavailable
from curator.ledger import connect, postgres, rows, run_rows, schema
from curator.ledger.anchor import HeadAnchor
from curator.ledger.chain import canonical_json
from curator.ledger.datasets_and_runs import DatasetStatus
from curator.ledger.entries import CapLowered, dataset_fields
from curator.ledger.memory import MemoryLedger
from curator.ledger.migrations.upgrade import FOLDER, upgrade
from curator.ledger.migrations.versions import v4_totals
from curator.ledger.problems import LedgerRestored
from curator.ledger.sql_ledger import SqlLedger
from curator.ledger.totals import Tally
from curator.ledger.transactions import Store
from tests.contract.ledger_values import BUDGET, SETUP, opening, registration
from tests.contract.postgres_server import postgres_or_skip
from tests.fakes.clock import FakeClock

pytest.importorskip("alembic", reason="alembic is not installed")

NEXT = """
from alembic import op
import sqlalchemy as sa
revision, down_revision, branch_labels, depends_on = "5", "4", None, None
def upgrade():
    op.add_column("meta", sa.Column("note", sa.Text))
    {then}
"""


def sqlite_store(path: Path) -> Store:
    return Store(reader=connect.reader_engine(path), writer=connect.writer_engine(path))


def tables(connection: Connection) -> dict[str, object]:
    """Everything about the tables that two ways of making them must agree on."""
    found = inspect(connection)
    return {
        name: (
            sorted(
                (column["name"], repr(column["type"]), column["nullable"])
                for column in found.get_columns(name)
            ),
            found.get_pk_constraint(name)["constrained_columns"],
            sorted(item["column_names"] for item in found.get_unique_constraints(name)),
            sorted((str(item["name"]), item["column_names"]) for item in found.get_indexes(name)),
            sorted(
                (item["constrained_columns"], item["referred_table"], item["referred_columns"])
                for item in found.get_foreign_keys(name)
            ),
        )
        for name in found.get_table_names()
        if name != "alembic_version"
    }


def triggers(connection: Connection) -> list[str]:
    query = (
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        if connection.dialect.name == "sqlite"
        else "SELECT tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid "
        "WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace"
    )
    return sorted(connection.execute(text(query)).scalars())


def made_by(store: Store, make: Callable[[Connection], None]) -> tuple[object, object]:
    def work(connection: Connection) -> tuple[object, object]:
        make(connection)
        return tables(connection), triggers(connection)

    try:
        return store.change(work)
    finally:
        store.close()


def from_nothing(connection: Connection) -> None:
    upgrade(connection, "base")


def test_the_revisions_lead_to_the_tables_of_a_new_ledger(tmp_path: Path) -> None:
    stores = []
    for name in ("new", "upgraded"):
        connect.make_private_file(tmp_path / name)
        stores.append(sqlite_store(tmp_path / name))
    assert made_by(stores[0], connect.create_tables) == made_by(stores[1], from_nothing)


def test_the_revisions_lead_to_the_same_tables_in_postgresql() -> None:
    stores = []
    for _ in range(2):
        url = postgres.database_url(postgres_or_skip().fresh())
        reader, writer = postgres.reader_engine(url), postgres.maintenance_engine(url)
        stores.append(Store(reader=reader, writer=writer))
    assert made_by(stores[0], connect.create_tables) == made_by(stores[1], from_nothing)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A ledger of the present version with something in it."""
    path = tmp_path / "ledger.sqlite"
    ledger = SqlLedger.open_writer(path, FakeClock())
    ledger.register_dataset(registration())
    ledger.open_run(opening(), "h")
    ledger.advance_mark("r", "h", 1, 4)
    ledger.close()
    return path


def plan_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    """Pretend that this software has a newer schema."""
    versions = tmp_path / "versions"
    versions.mkdir()
    for revision in (FOLDER / "versions").glob("v*.py"):
        (versions / revision.name).write_text(revision.read_text())
    (versions / "v5.py").write_text(NEXT.format(then=then))
    monkeypatch.setattr(schema, "SCHEMA_VERSION", 5)
    monkeypatch.setattr(
        connect, "upgrade", lambda connection, written: upgrade(connection, written, versions)
    )


def test_an_older_ledger_is_upgraded_at_opening(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_next(tmp_path, monkeypatch, "pass")
    with pytest.raises(LedgerUnavailable, match="'curator serve' upgrades it"):
        SqlLedger.open_reader(old, FakeClock())
    for _ in range(2):
        ledger = SqlLedger.open_writer(old, FakeClock())
        assert ledger.run("r").used == 4
        with ledger._store.reading() as connection:
            columns = [column["name"] for column in inspect(connection).get_columns("meta")]
        assert columns == ["key", "value", "note"]
        ledger.close()
    SqlLedger.open_reader(old, FakeClock()).close()


def test_a_ledger_that_is_older_than_its_anchor_is_not_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, anchor = tmp_path / "ledger.sqlite", HeadAnchor(tmp_path / "head.json")
    ledger = SqlLedger.open_writer(path, FakeClock(), anchor)
    ledger.register_dataset(registration())
    ledger.close()
    copy = path.read_bytes()
    ledger = SqlLedger.open_writer(path, FakeClock(), anchor)
    ledger.open_run(opening(), "h")
    ledger.close()
    path.write_bytes(copy)
    with monkeypatch.context() as newer:
        plan_next(tmp_path, newer, "pass")
        with pytest.raises(LedgerRestored):
            SqlLedger.open_writer(path, FakeClock(), anchor)
    SqlLedger.open_reader(path, FakeClock()).close()  # still of this version


@pytest.mark.parametrize("then", ["op.execute('nonsense')", "raise OSError"])
def test_an_upgrade_that_fails_leaves_the_ledger_as_it_was(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    with monkeypatch.context() as newer:
        plan_next(tmp_path, newer, then)
        with pytest.raises(LedgerUnavailable):
            SqlLedger.open_writer(old, FakeClock())
    ledger = SqlLedger.open_writer(old, FakeClock())
    assert ledger.run("r").used == 4
    with ledger._store.reading() as connection:
        assert "note" not in str(inspect(connection).get_columns("meta"))
    ledger.close()


def test_a_ledger_of_version_1_has_no_decisions_yet(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    connect.make_private_file(path)
    store = sqlite_store(path)

    def first_version(connection: Connection) -> None:
        upgrade(connection, "base", until="1")
        for table, row in rows_of_version_1():
            columns: list[Any] = [column(name) for name in row]
            connection.execute(insert(sql_table(table, *columns)).values(row))

    store.change(first_version)
    store.close()
    ledger = SqlLedger.open_writer(path, FakeClock())
    state = ledger.dataset("d")
    assert (state.cap, state.shares, state.policy_json) == (BUDGET.epsilon, (), "{}")
    assert (state.status, state.added.is_zero) == (DatasetStatus.ACTIVE, True)
    ledger.verify()
    ledger.decide(CapLowered(dataset="d", epsilon=1.0, reason="test"))
    ledger.verify()
    ledger.close()


def version_3(connection: Connection) -> MemoryLedger:
    """Write a ledger of before running totals; return the same in memory."""
    ledger = MemoryLedger(FakeClock())
    ledger.register_dataset(registration())
    ledger.register_dataset(registration("unused"))
    for number, analyst in enumerate(["ann", "bob", "ann", "ann"]):
        name = f"r{number}"
        ledger.open_run(opening(name, 20, analyst=analyst, setup=SETUP), "h")
        if number:
            ledger.begin_setup(name, "h", 1)
            ledger.advance_mark(name, "h", 1, 5 + number)
        if number < 3:
            ledger.close_run(name, "h", 1, 4 * bool(number), "done")
    upgrade(connection, "base", until="3")
    states = [rows.row_of_dataset(state) for state in ledger.datasets()]
    shown = [run_rows.row_of(run) for run in ledger.runs()]
    lines = [entry._asdict() for entry in ledger.entries()]
    for table, values in (("entries", lines), ("datasets", states), ("runs", shown)):
        columns: list[Any] = [column(name) for name in values[0]]
        connection.execute(insert(sql_table(table, *columns)), values)
    return ledger


def check_counted(told: MemoryLedger, ledger: SqlLedger) -> None:
    """The upgraded ledger counts what the entries say, and goes on counting."""
    ledger.verify()
    assert ledger.account("d") == told.account("d")
    assert [ledger.num_closed(whose) for whose in (None, "ann", "bob")] == [3, 2, 1]
    ledger.close_run("r3", "h", 1, 6, "done")
    assert [run.run_id for run in ledger.latest_runs(2, "ann")] == ["r3", "r2"]
    ledger.verify()
    ledger.close()


def test_running_totals_of_an_older_ledger_are_counted_when_it_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    connect.make_private_file(path)
    store = sqlite_store(path)
    told = store.change(version_3)
    store.close()
    check_counted(told, SqlLedger.open_writer(path, FakeClock()))


def test_running_totals_are_counted_in_postgresql_too() -> None:
    location = postgres_or_skip().fresh()
    url = postgres.database_url(location)
    store = Store(reader=postgres.reader_engine(url), writer=postgres.maintenance_engine(url))
    told = store.change(version_3)
    store.close()
    check_counted(told, SqlLedger.open_database(location, FakeClock()))


def test_an_upgrade_counts_infinite_costs_as_running_totals_do() -> None:
    cost = Cost((None, 0, *range(10**30, 10**30 + len(ORDERS) - 2)))
    total = v4_totals._nothing()
    v4_totals._add(total, [(json.dumps(cost.to_json()), 3), (json.dumps(cost.to_json()), 0)])
    assert v4_totals._text(total) == json.dumps(Tally().plus(cost, 3).to_json())
    v4_totals._add(total, [(json.dumps(cost.to_json()), -3)])
    assert v4_totals._text(total) == json.dumps(Tally().to_json())


def test_costs_that_cannot_be_read_stop_an_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    connect.make_private_file(path)
    store = sqlite_store(path)
    store.change(version_3)
    store.change(lambda connection: connection.execute(text("UPDATE runs SET step = '[\"x\"]'")))
    store.close()
    with pytest.raises(LedgerUnavailable, match="could not be upgraded from schema version 3"):
        SqlLedger.open_writer(path, FakeClock())


def rows_of_version_1() -> list[tuple[str, dict[str, object]]]:
    ledger = MemoryLedger(FakeClock())
    state = ledger.register_dataset(registration())
    (entry,) = ledger.entries()
    dataset = {
        **dataset_fields(state.registration),
        "rule": canonical_json(state.rule.to_json()),
        "registered_at": state.registered_at,
    }
    return [("entries", entry._asdict()), ("datasets", dataset)]
