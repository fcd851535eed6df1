from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from curator.errors import LedgerUnavailable
from curator.ledger.problems import ChainBroken, HolderLost, LedgerFromTheFuture, LedgerLocked
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.ledger_values import SETUP, opening, registration
from tests.fakes.clock import FakeClock

CLOCK = FakeClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[SqlLedger]:
    ledger = SqlLedger.open_writer(path, CLOCK)
    ledger.register_dataset(registration())
    ledger.open_run(opening("r", 100, setup=SETUP), "h")
    ledger.begin_setup("r", "h", 1)
    ledger.store_setup("r", "h", 1, b"released")
    ledger.advance_mark("r", "h", 1, 40)
    yield ledger
    ledger.close()


def snapshot(path: Path) -> Path:
    """What a power cut would leave: the files as they are now, no goodbye said."""
    target = path.parent / "after"
    target.mkdir()
    for suffix in ("", "-wal"):
        file = path.with_name(path.name + suffix)
        if file.exists():
            shutil.copy(file, target / file.name)
    return target / path.name


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


# Crashes


def test_after_a_power_cut_used_is_the_mark(ledger: SqlLedger, path: Path) -> None:
    after = SqlLedger.open_writer(snapshot(path), CLOCK)
    try:
        assert after.run("r").used == 40
        assert after.account("d").spent == ledger.account("d").spent
        assert after.setup_payload("r") == b"released"
        assert after.adopt_run("r", "h").epoch == 2
        with pytest.raises(HolderLost):
            after.close_run("r", "h", 1, 0, "")
    finally:
        after.close()


KILLED = """
import os, pathlib, signal, sys
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.ledger_values import opening, registration
from tests.fakes.clock import FakeClock
ledger = SqlLedger.open_writer(pathlib.Path(sys.argv[1]), FakeClock())
ledger.register_dataset(registration())
ledger.open_run(opening("r", 100), "h")
for used in range(1, 100):
    ledger.advance_mark("r", "h", 1, used)
    print(used, flush=True)
"""


def test_a_killed_process_never_under_counts(path: Path) -> None:
    root = Path(__file__).resolve().parents[4]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) == 20:
            process.send_signal(signal.SIGKILL)
            break
    told = [20, *(int(line) for line in process.stdout)]
    process.stdout.close()
    process.wait()
    ledger = SqlLedger.open_writer(path, CLOCK)
    assert ledger.run("r").used in {told[-1], told[-1] + 1}
    ledger.close()


# Tampering


def test_entries_and_payloads_are_append_only(ledger: SqlLedger, path: Path) -> None:
    for statement in (
        "UPDATE entries SET body = '{}' WHERE seq = 1",
        "DELETE FROM entries",
        "UPDATE setup_payloads SET payload = x'00'",
        "DELETE FROM setup_payloads",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            edit(path, statement)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE runs SET used = 39", "run 'r'"),
        ("UPDATE runs SET status = 'closed'", "run 'r'"),
        ("UPDATE runs SET setup_begun = 0", "run 'r'"),
        ("UPDATE runs SET step = setup", "run 'r'"),
        ("UPDATE runs SET step = '[]'", "cannot be read"),
        ("UPDATE runs SET answered = 'x'", "run 'r'"),
        ("DELETE FROM runs", "run 'r'"),
        ("UPDATE datasets SET epsilon = 20", "data set 'd'"),
        ("UPDATE datasets SET unit = 'planet'", "cannot be read"),
        ("UPDATE datasets SET facts_json = '[]'", "data set 'd'"),
        ("DELETE FROM datasets", "data set 'd'"),
        ("UPDATE setup_payloads SET payload = x'00'", "stored setup of run 'r'"),
        ("DELETE FROM setup_payloads", "stored setup of run 'r'"),
        ("INSERT INTO setup_payloads VALUES ('more', x'00')", "stored setup of run 'more'"),
        ("UPDATE entries SET body = replace(body, '40', '30') WHERE seq = 5", "entry 5"),
        ("UPDATE entries SET at = '' WHERE seq = 2", "entry 2"),
        ("DELETE FROM entries WHERE seq = 3", "entry 4"),
        ("DELETE FROM entries WHERE seq = 5", "run 'r'"),
    ],
)
def test_a_changed_file_is_refused(
    ledger: SqlLedger, path: Path, statement: str, named: str
) -> None:
    ledger.close()
    triggers = [f"{t}_no_{v}" for t in ("entries", "setup_payloads") for v in ("update", "delete")]
    edit(path, *(f"DROP TRIGGER {name}" for name in triggers), statement)
    with pytest.raises(ChainBroken, match=named):
        SqlLedger.open_writer(path, CLOCK)
    edit(path, "SELECT 1")  # the refused writer holds no lock
    with pytest.raises(ChainBroken, match=named):
        SqlLedger.open_writer(path, CLOCK)


# Failing closed


def test_a_failing_disk_is_unavailable_and_charges_nothing(ledger: SqlLedger, path: Path) -> None:
    blocker = sqlite3.connect(path, isolation_level=None)
    size = blocker.execute("PRAGMA page_count").fetchone()[0]
    blocker.close()
    assert ledger._store._store._writer is not None
    with ledger._store._store._writer.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {size}")  # a full disk
    opened = 0
    with pytest.raises(LedgerUnavailable):  # noqa: PT012 - how many fit is the disk's business
        while opened < 1000:
            ledger.open_run(opening(f"x{opened}", 1), "h")
            opened += 1
    assert ledger.head()[0] == 5 + opened
    ledger.advance_mark("r", "h", 1, 41)  # a new connection has no such limit
    ledger.verify()


def test_a_locked_database_is_unavailable(
    ledger: SqlLedger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ledger._store._store._writer is not None
    with ledger._store._store._writer.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 10")
    intruder = sqlite3.connect(path, isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable):
        ledger.advance_mark("r", "h", 1, 41)
    intruder.execute("ROLLBACK")
    intruder.close()
    assert ledger.run("r").used == 40
    assert ledger.advance_mark("r", "h", 1, 41).used == 41


def test_an_error_between_the_entry_and_the_row_leaves_neither(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError

    before = ledger.head()
    monkeypatch.setattr("curator.ledger.run_rows.update_run", fail)
    with pytest.raises(LedgerUnavailable):
        ledger.advance_mark("r", "h", 1, 41)
    monkeypatch.undo()
    assert ledger.head() == before
    assert ledger.run("r").used == 40
    ledger.verify()


@pytest.mark.parametrize("content", [b"", b"not a database at all, whatever its name says" * 50])
def test_a_reader_of_something_else_is_unavailable(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(LedgerUnavailable):
        SqlLedger.open_reader(path, CLOCK)


def test_a_writer_of_something_else_is_unavailable(path: Path) -> None:
    path.write_bytes(b"not a database at all, whatever its name says" * 50)
    with pytest.raises(LedgerUnavailable):
        SqlLedger.open_writer(path, CLOCK)
    with pytest.raises(LedgerUnavailable):
        SqlLedger.open_writer(path.parent / "nowhere" / "x.sqlite", CLOCK)


# Opening


def test_one_writer_and_many_readers(ledger: SqlLedger, path: Path) -> None:
    with pytest.raises(LedgerLocked):
        SqlLedger.open_writer(path, CLOCK)
    reader = SqlLedger.open_reader(path, CLOCK)
    assert reader.run("r") == ledger.run("r")
    ledger.advance_mark("r", "h", 1, 41)
    assert reader.run("r").used == 41
    reader.verify()
    with pytest.raises(LedgerUnavailable):
        reader.advance_mark("r", "h", 1, 42)
    reader.close()


def test_a_reader_needs_no_writer_and_makes_no_file(ledger: SqlLedger, path: Path) -> None:
    ledger.close()
    reader = SqlLedger.open_reader(path, CLOCK)
    reader.verify()
    reader.close()
    missing = path.with_name("missing.sqlite")
    with pytest.raises(LedgerUnavailable):
        SqlLedger.open_reader(missing, CLOCK)
    assert not missing.exists()


def test_a_newer_ledger_is_refused_with_what_to_do(ledger: SqlLedger, path: Path) -> None:
    ledger.close()
    edit(path, "UPDATE meta SET value = value + 1 WHERE key = 'schema_version'")
    for opened in (SqlLedger.open_writer, SqlLedger.open_reader):
        with pytest.raises(LedgerFromTheFuture, match="newer one"):
            opened(path, CLOCK)


def test_the_file_is_its_owner_s_and_durable(ledger: SqlLedger, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ledger._store._store._writer is not None
    with ledger._store._store._writer.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_entries_are_paged(ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curator.ledger.sql_ledger_reads._PAGE", 2)
    assert [entry.seq for entry in ledger.entries()] == [1, 2, 3, 4, 5]


def test_a_closed_ledger_never_writes_again(tmp_path: Path) -> None:
    ledger = SqlLedger.open_writer(tmp_path / "ledger.sqlite", FakeClock())
    ledger.close()
    with pytest.raises(LedgerUnavailable):
        ledger.register_dataset(registration())
