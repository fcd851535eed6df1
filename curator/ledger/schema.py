"""The tables of the ledger. `entries` is the truth; the others show it and can be rebuilt."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from sqlalchemy import (
    DDL,
    Boolean,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
)

SCHEMA_VERSION: Final = 4

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("value", Text, nullable=False),
)

entries = Table(
    "entries",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", String(40), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", String(64), nullable=False, unique=True),
    Column("digest", String(64), nullable=False, unique=True),
)

datasets = Table(
    "datasets",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("epsilon", Float, nullable=False),
    Column("delta", Float, nullable=False),
    Column("relation", String(32), nullable=False),
    Column("unit", String(32), nullable=False),
    Column("facts_json", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("registered_at", String(40), nullable=False),
    Column("cap", Float, nullable=False),
    Column("shares", Text, nullable=False),
    Column("policy_json", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("added", Text, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(200), nullable=False, unique=True),
    Column("dataset", ForeignKey("datasets.name"), nullable=False),
    Column("analyst", String(200), nullable=False),
    Column("mechanism", String(64), nullable=False),
    Column("parameters_json", Text, nullable=False),
    Column("setup", Text, nullable=False),
    Column("step", Text, nullable=False),
    Column("num_steps", Integer, nullable=False),
    Column("setup_event_json", Text, nullable=False),
    Column("step_event_json", Text, nullable=False),
    Column("used", Integer, nullable=False),
    Column("answered", Integer, nullable=False),
    Column("status", String(16), nullable=False),
    Column("close_reason", Text, nullable=False),
    Column("holder", String(200), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("setup_begun", Boolean, nullable=False),
    Column("setup_digest", String(64), nullable=False),
    Column("opened_at", String(40), nullable=False),
    Column("closed_at", String(40), nullable=False),
    Index("ix_runs_dataset_position", "dataset", "position"),
    Index("ix_runs_analyst_position", "analyst", "position"),
    Index("ix_runs_status_position", "status", "position"),
)

totals = Table(
    "totals",
    metadata,
    Column("dataset", ForeignKey("datasets.name"), primary_key=True),
    Column("analyst", String(200), primary_key=True),
    Column("spent", Text, nullable=False),
    Column("reserved", Text, nullable=False),
    Column("num_closed", Integer, nullable=False),
)

setup_payloads = Table(
    "setup_payloads",
    metadata,
    Column("run_id", ForeignKey("runs.run_id"), primary_key=True),
    Column("payload", LargeBinary, nullable=False),
)

leases = Table(  # of a ledger that several processes write; no part of the account
    "leases",
    MetaData(),
    Column("holder", String(200), primary_key=True),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)

_REFUSE_IN_POSTGRESQL: Final = """
CREATE OR REPLACE FUNCTION weir_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '%% is append-only', TG_TABLE_NAME; END $$
"""

for _table in (entries, setup_payloads):
    for _verb in ("UPDATE", "DELETE"):
        event.listen(
            _table,
            "after_create",
            DDL(  # type: ignore[no-untyped-call]
                f"CREATE TRIGGER {_table.name}_no_{_verb.lower()} BEFORE {_verb} ON {_table.name} "
                f"BEGIN SELECT RAISE(ABORT, '{_table.name} is append-only'); END"
            ).execute_if(dialect="sqlite"),
        )
    _trigger = (
        f"CREATE TRIGGER {_table.name}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
        f"ON {_table.name} FOR EACH STATEMENT EXECUTE FUNCTION weir_append_only()"
    )
    for _statement in (_REFUSE_IN_POSTGRESQL, _trigger):
        event.listen(
            _table,
            "after_create",
            DDL(_statement).execute_if(dialect="postgresql"),  # type: ignore[no-untyped-call]
        )


def prepare_connection(connection: sqlite3.Connection, _record: Any) -> None:
    """Make one SQLite connection durable, and leave BEGIN to `begin_immediate`."""
    connection.isolation_level = None
    for pragma in (
        "busy_timeout = 5000",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "trusted_schema = OFF",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def prepare_reader(connection: sqlite3.Connection, _record: Any) -> None:
    """Make one SQLite connection that cannot write."""
    connection.isolation_level = None
    for pragma in ("busy_timeout = 5000", "query_only = ON", "trusted_schema = OFF"):
        connection.execute(f"PRAGMA {pragma}").close()
