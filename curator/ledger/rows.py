"""Between rows and frozen values; big integers are decimal text in JSON, as in the entries."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from curator.accounting.rule import BudgetRule
from curator.ledger import schema
from curator.ledger.book import Book
from curator.ledger.chain import GENESIS, Entry, canonical_json
from curator.ledger.datasets_and_runs import DatasetRegistration, DatasetState, DatasetStatus
from curator.ledger.entries import dataset_fields
from curator.ledger.run_rows import PAGE, cost_of
from curator.ledger.totals import EVERYBODY, Tally, Totals
from curator.privacy.adjacency import Adjacency, Relation, Unit
from curator.privacy.budget import Budget

_FEW: Final = 32
"""Kept setups in memory at a time: each may have megabytes."""


def load_account(
    connection: Connection, dataset: str, whose: Collection[str] = (EVERYBODY,)
) -> Book:
    """Return a data set with totals of some analysts or `EVERYBODY`; of all for an empty list."""
    return Book(
        datasets=load_datasets(connection, dataset), totals=load_totals(connection, dataset, whose)
    )


def load_totals(
    connection: Connection, dataset: str | None = None, whose: Collection[str] = ()
) -> dict[tuple[str, str], Totals]:
    """Return the running totals of a data set or of all, for some analysts or for all."""
    table = schema.totals
    query = select(table)
    if dataset is not None:
        query = query.where(table.c.dataset == dataset)
    if whose:
        query = query.where(table.c.analyst.in_(whose))
    return totals_of(connection.execute(query).mappings())


def totals_of(rows: Iterable[Mapping[Any, Any]]) -> dict[tuple[str, str], Totals]:
    """Return the totals of rows, by data set and analyst."""
    return {
        (row["dataset"], row["analyst"]): Totals(
            spent=Tally.from_json(json.loads(row["spent"])),
            reserved=Tally.from_json(json.loads(row["reserved"])),
            num_closed=row["num_closed"],
        )
        for row in rows
    }


def rows_of_totals(totals: Mapping[tuple[str, str], Totals]) -> list[dict[str, object]]:
    """Return totals as plain values."""
    return [
        {
            "dataset": dataset,
            "analyst": analyst,
            "spent": json.dumps(now.spent.to_json()),
            "reserved": json.dumps(now.reserved.to_json()),
            "num_closed": now.num_closed,
        }
        for (dataset, analyst), now in totals.items()
    ]


def save_totals(
    connection: Connection,
    before: Mapping[tuple[str, str], Totals],
    after: Mapping[tuple[str, str], Totals],
) -> None:
    """Show the totals that a change moved in the place of what they were."""
    table = schema.totals
    rows = rows_of_totals({key: now for key, now in after.items() if before.get(key) != now})
    if not rows:
        return
    shown = (table.c.dataset == bindparam("of")) & (table.c.analyst == bindparam("whose"))
    keys = [{"of": row["dataset"], "whose": row["analyst"]} for row in rows]
    connection.execute(delete(table).where(shown), keys)
    connection.execute(insert(table), rows)


def count_closed(connection: Connection, analyst: str) -> int:
    """Return how many closed runs an analyst has, or everybody, over all data sets."""
    table = schema.totals
    query = select(func.sum(table.c.num_closed)).where(table.c.analyst == analyst)
    return int(connection.execute(query).scalar_one() or 0)


def load_datasets(connection: Connection, name: str | None = None) -> dict[str, DatasetState]:
    """Return the data sets by name, or the one called `name` if there is one."""
    table = schema.datasets
    query = select(table) if name is None else select(table).where(table.c.name == name)
    states = map(dataset_of, connection.execute(query).mappings())
    return {state.registration.name: state for state in states}


def dataset_of(row: Mapping[Any, Any]) -> DatasetState:
    """Return the data set of a row."""
    registration = DatasetRegistration(
        name=row["name"],
        budget=Budget(epsilon=row["epsilon"], delta=row["delta"]),
        adjacency=Adjacency(relation=Relation(row["relation"]), unit=Unit(row["unit"])),
        facts_json=row["facts_json"],
    )
    return DatasetState(
        registration=registration,
        rule=BudgetRule.from_json(json.loads(row["rule"])),
        registered_at=row["registered_at"],
        cap=row["cap"],
        shares=tuple(sorted(json.loads(row["shares"]).items())),
        policy_json=row["policy_json"],
        status=DatasetStatus(row["status"]),
        added=cost_of(row["added"]),
    )


def load_payload(connection: Connection, run_id: str) -> bytes | None:
    """Return the bytes that a run's setup released, if they were kept."""
    table = schema.setup_payloads
    query = select(table.c.payload).where(table.c.run_id == run_id)
    payload: bytes | None = connection.execute(query).scalar_one_or_none()
    return payload


def changed_payload(connection: Connection) -> str | None:
    """Return a run whose kept setup is not the one that its row names, None if there is none."""
    runs, kept, after, count = schema.runs, schema.setup_payloads, 0, 0
    named = select(runs.c.position, runs.c.run_id, runs.c.setup_digest)
    named = named.where(runs.c.setup_digest != "").order_by(runs.c.position).limit(_FEW)
    while page := connection.execute(named.where(runs.c.position > after)).all():
        after, count = page[-1].position, count + len(page)
        query = select(kept).where(kept.c.run_id.in_([row.run_id for row in page]))
        payloads = {row.run_id: row.payload for row in connection.execute(query)}
        for row in page:
            payload = payloads.get(row.run_id)
            if payload is None or hashlib.sha256(payload).hexdigest() != row.setup_digest:
                return str(row.run_id)
    if connection.execute(select(func.count()).select_from(kept)).scalar_one() == count:
        return None
    of_runs = select(runs.c.run_id).where(runs.c.setup_digest != "")
    return str(
        connection.execute(select(kept.c.run_id).where(kept.c.run_id.not_in(of_runs))).scalar()
    )


def load_head(connection: Connection) -> tuple[int, str]:
    """Return the last entry's number and digest."""
    table = schema.entries
    query = select(table.c.seq, table.c.digest).order_by(table.c.seq.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return (row.seq, row.digest) if row else (0, GENESIS)


def load_last(connection: Connection) -> Entry | None:
    """Return the last entry, None if there is none."""
    seq, _ = load_head(connection)
    return next(iter(load_entries(connection, seq - 1, 1)), None)


def load_digest(connection: Connection, seq: int) -> str | None:
    """Return the digest of one entry, the genesis of entry 0, None if it is not there."""
    table = schema.entries
    query = select(table.c.digest).where(table.c.seq == seq)
    digest: str | None = connection.execute(query).scalar_one_or_none() if seq else GENESIS
    return digest


def load_entries(connection: Connection, after: int, at_most: int) -> list[Entry]:
    """Return the next entries after a sequence number."""
    table = schema.entries
    columns = [table.c[name] for name in Entry._fields]
    query = select(*columns).where(table.c.seq > after).order_by(table.c.seq).limit(at_most)
    return [Entry._make(row) for row in connection.execute(query)]


def entries_after(connection: Connection, seq: int) -> Iterator[Entry]:
    """Return all later entries in order, as one snapshot, a page in memory at a time."""
    while page := load_entries(connection, seq, PAGE):
        yield from page
        seq = page[-1].seq


def insert_entry(connection: Connection, entry: Entry) -> None:
    """Append one entry."""
    connection.execute(insert(schema.entries).values(entry._asdict()))


def insert_dataset(connection: Connection, state: DatasetState) -> None:
    """Show a new data set."""
    connection.execute(insert(schema.datasets).values(row_of_dataset(state)))


def row_of_dataset(state: DatasetState) -> dict[str, object]:
    """Return a data set as plain values."""
    return {
        **dataset_fields(state.registration),
        "rule": canonical_json(state.rule.to_json()),
        "registered_at": state.registered_at,
        **_decided_fields(state),
    }


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


def touch(connection: Connection) -> None:
    """Write something that means nothing; SQLite writes no page for a value that stays."""
    table, row = schema.meta, {"key": "last-probe", "value": secrets.token_hex(8)}
    connection.execute(delete(table).where(table.c.key == row["key"]))
    connection.execute(insert(table).values(row))


def insert_payload(connection: Connection, run_id: str, payload: bytes) -> None:
    """Keep what a setup released."""
    row = {"run_id": run_id, "payload": payload}
    connection.execute(insert(schema.setup_payloads).values(row))
