"""The ledger is read without a trace, and whatever is wrong with it is said."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from curator.clock import utc_now
from curator.config import CuratorConfig, LedgerSection
from curator.doctor.finding import State
from curator.doctor.ledger import ledger
from curator.doctor.subject import Subject
from curator.folder import CuratorFolder
from curator.ledger.ledger import DatasetRegistration
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.postgres_server import postgres_or_skip
from tests.fakes.facts import small_facts
from tests.unit.curator.doctor.conftest import contents

SECRET = "a-secret-word"


def register(writer: SqlLedger) -> None:
    facts = small_facts()
    writer.register_dataset(
        DatasetRegistration(
            name=facts.name,
            budget=facts.budget,
            adjacency=facts.adjacency,
            facts_json=facts.model_dump_json(),
        )
    )


def of_database(folder: CuratorFolder, url: str) -> Subject:
    config = CuratorConfig(ledger=LedgerSection(url=url))
    return replace(Subject.of(folder.root), config=config)


def test_entries_are_counted(folder: CuratorFolder) -> None:
    with closing(SqlLedger.open_writer(folder.ledger, utc_now)) as writer:
        register(writer)
    finding = ledger(Subject.of(folder.root))
    assert finding.state is State.OK
    assert finding.facts["entries"] == 1


def test_beside_a_serving_curator_it_is_read_too(folder: CuratorFolder) -> None:
    with closing(SqlLedger.open_writer(folder.ledger, utc_now)) as writer:
        register(writer)
        before = contents(folder.root)
        served = replace(Subject.of(folder.root), is_served=True)
        assert ledger(served).facts["entries"] == 1
        after = contents(folder.root)
    shared = "ledger.sqlite-shm"  # who reads is noted there, as by every reader
    assert {k: v for k, v in after.items() if k != shared} == {
        k: v for k, v in before.items() if k != shared
    }


def test_a_log_that_nobody_takes_in_is_left_alone(folder: CuratorFolder) -> None:
    with closing(SqlLedger.open_writer(folder.ledger, utc_now)) as writer:
        register(writer)
        before = contents(folder.root)
        finding = ledger(Subject.of(folder.root))
        assert contents(folder.root) == before
        killed = ledger(replace(Subject.of(folder.root), is_busy=False))
    assert finding.state is killed.state is State.ATTENTION
    assert "in use by a curator that is starting or stopping" in finding.words
    assert "wait for the ready line" in finding.next_step
    assert "a log of changes lies beside it, and no curator serves" in killed.words


def test_an_older_copy_is_a_fault(folder: CuratorFolder) -> None:
    head = folder.root / "ledger-head.json"
    head.write_text(json.dumps({"seq": 7, "digest": "0" * 64, "datasets-version-1": {}}))
    finding = ledger(Subject.of(folder.root))
    assert finding.state is State.FAULT
    assert "older copy" in finding.words


@pytest.mark.parametrize(("version", "state"), [("2", State.ATTENTION), ("99", State.FAULT)])
def test_another_version_is_told(folder: CuratorFolder, version: str, state: State) -> None:
    with closing(sqlite3.connect(folder.ledger)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (version,))
    finding = ledger(Subject.of(folder.root))
    assert finding.state is state
    assert f"schema version {version}" in finding.words


def test_an_entry_of_the_future_tells_of_the_clock(folder: CuratorFolder) -> None:
    ahead = datetime.now(UTC) + timedelta(days=3)
    with closing(SqlLedger.open_writer(folder.ledger, lambda: ahead)) as writer:
        register(writer)
    finding = ledger(Subject.of(folder.root))
    assert finding.state is State.ATTENTION
    assert "in the future" in finding.words


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://weir:{SECRET}@127.0.0.1:9/nowhere",
        f"mysql://weir:{SECRET}@127.0.0.1/nowhere",
        f"no url with {SECRET}",
    ],
)
def test_a_database_that_cannot_be_reached_is_a_fault(folder: CuratorFolder, url: str) -> None:
    pytest.importorskip("psycopg")
    finding = ledger(of_database(folder, url))
    assert finding.state is State.FAULT
    assert "cannot be read" in finding.words
    assert SECRET not in repr(finding)


def test_a_postgresql_ledger_is_read(folder: CuratorFolder) -> None:
    url = postgres_or_skip().fresh()
    assert "no ledger in it yet" in ledger(of_database(folder, url)).words
    with closing(SqlLedger.open_database(url, utc_now)) as writer:
        register(writer)
    finding = ledger(of_database(folder, url))
    assert finding.state is State.OK
    assert finding.facts["entries"] == 1
    assert "PostgreSQL" in finding.words


def test_images_of_an_adding_that_was_killed_are_told(folder: CuratorFolder) -> None:
    with closing(SqlLedger.open_writer(folder.ledger, utc_now)) as writer:
        register(writer)
    folder.images(small_facts().name).mkdir(parents=True)
    assert ledger(Subject.of(folder.root)).state is State.OK
    folder.images("killed").mkdir()
    finding = ledger(Subject.of(folder.root))
    assert finding.state is State.ATTENTION
    assert finding.words.endswith("it does not know: killed")
    assert "add the data set again under the same name" in finding.next_step


def test_a_folder_that_cannot_be_listed_is_no_fault_of_the_ledger(
    folder: CuratorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqlLedger.open_writer(folder.ledger, utc_now)) as writer:
        register(writer)
    folder.images("any").mkdir(parents=True)

    def refuse(_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.iterdir", refuse)
    finding = ledger(Subject.of(folder.root))
    assert finding.state is State.ATTENTION
    assert finding.words.endswith("datasets/ cannot be listed")
