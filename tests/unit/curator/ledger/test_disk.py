"""Disks that fail: nothing is charged that was not written, nothing is answered, all recovers."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from curator.errors import LedgerUnavailable
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.ledger_values import opening, registration
from tests.fakes.clock import FakeClock

ROOT = Path(__file__).resolve().parents[4]
FULL = """
import pathlib, resource, signal, sys
from curator.errors import LedgerUnavailable
from curator.ledger.sql_ledger import SqlLedger
from tests.fakes.clock import FakeClock
path = pathlib.Path(sys.argv[1])
ledger = SqlLedger.open_writer(path, FakeClock())
ledger.advance_mark("r", "h", 1, 10)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error, as on a full disk
size = path.with_name(path.name + "-wal").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + int(sys.argv[2]), resource.RLIM_INFINITY))
for used in (11, 12):
    try:
        ledger.advance_mark("r", "h", 1, used)
    except LedgerUnavailable:
        continue
    raise SystemExit("a full disk said yes")
assert ledger.run("r").used == 10
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert ledger.advance_mark("r", "h", 1, 13).used == 13
ledger.verify()
"""
READ_ONLY = """
import os, pathlib, sys
from curator.errors import LedgerUnavailable
from curator.ledger.sql_ledger import SqlLedger
from tests.fakes.clock import FakeClock
if os.geteuid() == 0:
    os.setuid(65534)
try:
    SqlLedger.open_writer(pathlib.Path(sys.argv[1]), FakeClock())
except LedgerUnavailable:
    raise SystemExit(7)
"""


def run_python(code: str, *arguments: object) -> int:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    return done.returncode


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[SqlLedger]:
    ledger = SqlLedger.open_writer(path, FakeClock())
    ledger.register_dataset(registration())
    ledger.open_run(opening("r", 100), "h")
    yield ledger
    ledger.close()


@pytest.mark.parametrize("room", [0, 100])
def test_a_full_disk_charges_nothing_and_recovers(ledger: SqlLedger, path: Path, room: int) -> None:
    ledger.close()
    assert run_python(FULL, path, room) == 0


def test_a_read_only_file_is_unavailable(ledger: SqlLedger, path: Path) -> None:
    ledger.close()
    for file in path.parent.glob("ledger.sqlite*"):
        file.chmod(0o444)
    path.parent.chmod(0o555)
    assert run_python(READ_ONLY, path) == 7


@pytest.mark.parametrize("written", [False, True])
def test_a_sync_that_fails_is_never_a_yes(ledger: SqlLedger, written: bool) -> None:
    """The change may or may not be on the disk; the caller learns only that it may not go on."""
    assert ledger._store._store._writer is not None

    def fail(connection: object) -> None:
        if written:
            connection.connection.commit()  # type: ignore[attr-defined]
        raise sqlite3.OperationalError("disk I/O error")

    event.listen(ledger._store._store._writer, "commit", fail)
    with pytest.raises(LedgerUnavailable):
        ledger.advance_mark("r", "h", 1, 10)
    event.remove(ledger._store._store._writer, "commit", fail)
    assert ledger.run("r").used == (10 if written else 0)
    assert ledger.advance_mark("r", "h", 1, 10).used == 10
    ledger.verify()
