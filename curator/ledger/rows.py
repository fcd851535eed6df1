"""Between rows and frozen values; big integers are decimal text in JSON, as in the entries."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Final

from sqlalchemy import Connection, Integer, cast, delete, func, insert, select, update

from curator.accounting.cost import Cost
from curator.accounting.rule import BudgetRule
from curator.ledger import schema
from curator.ledger.book import Book
from curator.ledger.chain import GENESIS, Entry, canonical_json
from curator.ledger.entries import dataset_fields
from curator.ledger.records import (
    DatasetRegistration,
    DatasetState,
    DatasetStatus,
    RunState,
    RunStatus,
    Use,
)
from curator.privacy.adjacency import Adjacency, Relation, Unit
from curator.privacy.budget import Budget

_CHANGING: Final = (
    *("used", "answered", "status", "close_reason", "holder", "epoch"),
    *("setup_begun", "setup_digest", "closed_at"),
)


def load_book(connection: Connection, dataset: str | None = None) -> Book:
    """Return one data set with its runs, or everything."""
    return Book(
        datasets=load_datasets(connection, dataset), runs=load_runs(connection, dataset=dataset)
    )


def load_account(connection: Connection, dataset: str) -> Book:
    """Return one data set with its open runs; its closed runs are counted by the database."""
    book = Book(
        datasets=load_datasets(connection, dataset),
        runs=load_runs(connection, dataset=dataset, status=RunStatus.OPEN),
    )
    for analyst, uses in _settled(connection, dataset):
        book.settle((dataset, analyst), uses)
    return book


def _settled(connection: Connection, dataset: str) -> Iterator[tuple[str, list[Use]]]:
    """Return the uses of each analyst's closed runs: counts are summed, costs are not."""
    table = schema.runs
    closed = (table.c.dataset == dataset) & (table.c.status == str(RunStatus.CLOSED))
    for cost, count in (
        (table.c.setup, cast(table.c.setup_begun, Integer)),
        (table.c.step, table.c.used),
    ):
        columns = table.c.analyst, cost
        query = select(*columns, func.sum(count)).where(closed).group_by(*columns)
        for analyst, text, times in connection.execute(query):
            yield analyst, [(_cost(text), int(times))]


def load_datasets(connection: Connection, name: str | None = None) -> dict[str, DatasetState]:
    """Return the data sets by name, or the one called `name` if there is one."""
    table = schema.datasets
    query = select(table) if name is None else select(table).where(table.c.name == name)
    found = {}
    for row in connection.execute(query).mappings():
        registration = DatasetRegistration(
            name=row["name"],
            budget=Budget(epsilon=row["epsilon"], delta=row["delta"]),
            adjacency=Adjacency(relation=Relation(row["relation"]), unit=Unit(row["unit"])),
            facts_json=row["facts_json"],
        )
        rule = BudgetRule.from_json(json.loads(row["rule"]))
        found[registration.name] = DatasetState(
            registration=registration,
            rule=rule,
            registered_at=row["registered_at"],
            cap=row["cap"],
            shares=tuple(sorted(json.loads(row["shares"]).items())),
            policy_json=row["policy_json"],
            status=DatasetStatus(row["status"]),
            added=_cost(row["added"]),
        )
    return found


def load_asked(connection: Connection, dataset: str) -> set[str]:
    """Return the data set if a run was ever opened on it, else nothing."""
    column = schema.runs.c.dataset
    return set(connection.execute(select(column).where(column == dataset).limit(1)).scalars())


def load_runs(
    connection: Connection,
    *,
    run_id: str | None = None,
    dataset: str | None = None,
    analyst: str | None = None,
    status: RunStatus | None = None,
) -> dict[str, RunState]:
    """Return the runs that fit, in the order in which they were opened."""
    table = schema.runs
    query = select(table).order_by(table.c.position)
    for column, wanted in (
        (table.c.run_id, run_id),
        (table.c.dataset, dataset),
        (table.c.analyst, analyst),
        (table.c.status, status),
    ):
        if wanted is not None:
            query = query.where(column == wanted)
    found = {}
    for row in connection.execute(query).mappings():
        values = {field.name: row[field.name] for field in fields(RunState)}
        values["setup"], values["step"] = _cost(row["setup"]), _cost(row["step"])
        values["status"] = RunStatus(row["status"])
        found[row["run_id"]] = RunState(**values)
    return found


@lru_cache(maxsize=1024)
def _cost(text: str) -> Cost:
    return Cost.from_json(json.loads(text))


def load_payload(connection: Connection, run_id: str) -> bytes | None:
    """Return the bytes that a run's setup released, if they were kept."""
    table = schema.setup_payloads
    query = select(table.c.payload).where(table.c.run_id == run_id)
    payload: bytes | None = connection.execute(query).scalar_one_or_none()
    return payload


def load_head(connection: Connection) -> tuple[int, str]:
    """Return the last entry's number and digest."""
    table = schema.entries
    query = select(table.c.seq, table.c.digest).order_by(table.c.seq.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return (row.seq, row.digest) if row else (0, GENESIS)


def load_digest(connection: Connection, seq: int) -> str | None:
    """Return the digest of one entry, the genesis of entry 0, None if it is not there."""
    table = schema.entries
    query = select(table.c.digest).where(table.c.seq == seq)
    digest: str | None = connection.execute(query).scalar_one_or_none() if seq else GENESIS
    return digest


def load_entries(connection: Connection, after: int, at_most: int) -> list[Entry]:
    """Return the next entries after a sequence number."""
    table = schema.entries
    query = select(table).where(table.c.seq > after).order_by(table.c.seq).limit(at_most)
    return [Entry(**row) for row in connection.execute(query).mappings()]


def all_entries(connection: Connection) -> Iterator[Entry]:
    """Return every entry in order, as one snapshot."""
    table = schema.entries
    for row in connection.execute(select(table).order_by(table.c.seq)).mappings():
        yield Entry(**row)


def insert_entry(connection: Connection, entry: Entry) -> None:
    """Append one entry."""
    connection.execute(insert(schema.entries).values(asdict(entry)))


def insert_dataset(connection: Connection, state: DatasetState) -> None:
    """Show a new data set."""
    values = {
        **dataset_fields(state.registration),
        "rule": canonical_json(state.rule.to_json()),
        "registered_at": state.registered_at,
        **_decided_fields(state),
    }
    connection.execute(insert(schema.datasets).values(values))


def update_dataset(connection: Connection, state: DatasetState) -> None:
    """Show what the steward decided."""
    table = schema.datasets
    query = update(table).where(table.c.name == state.registration.name)
    connection.execute(query.values(_decided_fields(state)))


def _decided_fields(state: DatasetState) -> dict[str, object]:
    return {
        "cap": state.cap,
        "shares": canonical_json(dict(state.shares)),
        "policy_json": state.policy_json,
        "status": str(state.status),
        "added": json.dumps(state.added.to_json()),
    }


def insert_run(connection: Connection, run: RunState) -> None:
    """Show a new run."""
    values = {field.name: getattr(run, field.name) for field in fields(RunState)}
    values["setup"] = json.dumps(run.setup.to_json())
    values["step"] = json.dumps(run.step.to_json())
    values["status"] = str(run.status)
    connection.execute(insert(schema.runs).values(values))


def update_run(connection: Connection, run: RunState) -> None:
    """Show what changed of a run."""
    values = {name: getattr(run, name) for name in _CHANGING} | {"status": str(run.status)}
    query = update(schema.runs).where(schema.runs.c.run_id == run.run_id).values(values)
    connection.execute(query)


def touch(connection: Connection) -> None:
    """Write something that means nothing; SQLite writes no page for a value that stays."""
    table, row = schema.meta, {"key": "last-probe", "value": secrets.token_hex(8)}
    connection.execute(delete(table).where(table.c.key == row["key"]))
    connection.execute(insert(table).values(row))


def insert_payload(connection: Connection, run_id: str, payload: bytes) -> None:
    """Keep what a setup released."""
    row = {"run_id": run_id, "payload": payload}
    connection.execute(insert(schema.setup_payloads).values(row))
