"""What is particular to PostgreSQL: several writers, leases, and a server that must sync."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from curator.errors import LedgerUnavailable
from curator.ledger.lease import Lease
from curator.ledger.postgres import refuse_forgetful_servers
from curator.ledger.problems import ChainBroken, HolderAlive, HolderLost, LedgerFromTheFuture
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.ledger_values import SETUP, opening, registration
from tests.contract.postgres_server import Server, postgres_or_skip
from tests.fakes.clock import FakeClock

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def server() -> Server:
    return postgres_or_skip()


@pytest.fixture
def url(server: Server) -> str:
    return server.fresh()


@pytest.fixture
def first(url: str) -> Iterator[SqlLedger]:
    ledger = SqlLedger.open_database(url, FakeClock())
    ledger.register_dataset(registration())
    ledger.open_run(opening("r", 100, setup=SETUP), "h")
    ledger.begin_setup("r", "h", 1)
    ledger.store_setup("r", "h", 1, b"released")
    yield ledger
    ledger.close()


@pytest.fixture
def second(first: SqlLedger, url: str) -> Iterator[SqlLedger]:
    ledger = SqlLedger.open_database(url, FakeClock())
    yield ledger
    ledger.close()


def schema_of(url: str) -> str:
    return url.rpartition("%3D")[2]


def test_two_processes_write_one_chain(first: SqlLedger, second: SqlLedger, url: str) -> None:
    for used in range(1, 11):
        (first, second)[used % 2].advance_mark("r", "h", 1, used)
    assert first.head() == second.head()
    reader = SqlLedger.open_database_reader(url, FakeClock())
    assert reader.run("r").used == 10
    reader.verify()
    with pytest.raises(LedgerUnavailable):
        reader.advance_mark("r", "h", 1, 11)
    reader.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = '{}' WHERE seq = 1",
        "DELETE FROM entries",
        "TRUNCATE entries",
        "UPDATE setup_payloads SET payload = ''",
        "DELETE FROM setup_payloads",
    ],
)
def test_entries_and_payloads_are_append_only(
    first: SqlLedger, server: Server, url: str, statement: str
) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        server.run_sql(statement, schema_of(url))
    assert "append-only" in refused.value.stderr


def test_a_changed_row_is_refused(first: SqlLedger, server: Server, url: str) -> None:
    server.run_sql("UPDATE runs SET used = 1", schema_of(url))
    with pytest.raises(ChainBroken, match="run 'r'"):
        SqlLedger.open_database(url, FakeClock())


def test_a_newer_ledger_is_refused(first: SqlLedger, server: Server, url: str) -> None:
    server.run_sql("UPDATE meta SET value = '999' WHERE key = 'schema_version'", schema_of(url))
    for opened in (SqlLedger.open_database, SqlLedger.open_database_reader):
        with pytest.raises(LedgerFromTheFuture):
            opened(url, FakeClock())


def test_no_server_is_unavailable(tmp_path: Path) -> None:
    postgres_or_skip()
    with pytest.raises(LedgerUnavailable):
        SqlLedger.open_database(f"postgresql://nobody@/x?host={tmp_path}", FakeClock())
    with pytest.raises(LedgerUnavailable, match="postgresql://"):
        SqlLedger.open_database("sqlite:///x", FakeClock())


def test_a_server_that_does_not_sync_is_refused(first: SqlLedger, server: Server) -> None:
    with first._store.reading() as connection:
        refuse_forgetful_servers(connection)  # the tests' own does sync
    server.run_sql("ALTER SYSTEM SET full_page_writes = off")
    server.run_sql("SELECT pg_reload_conf()")
    try:
        deadline = time.monotonic() + 10
        while server.run_sql("SHOW full_page_writes") == "on" and time.monotonic() < deadline:
            time.sleep(0.05)
        with pytest.raises(LedgerUnavailable, match="full_page_writes"):
            SqlLedger.open_database(server.fresh(), FakeClock())
    finally:
        server.run_sql("ALTER SYSTEM RESET full_page_writes")
        server.run_sql("SELECT pg_reload_conf()")
        while server.run_sql("SHOW full_page_writes") == "off":
            time.sleep(0.05)


def test_a_connection_that_the_server_ends_is_unavailable_and_comes_back(
    first: SqlLedger, server: Server
) -> None:
    server.run_sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'"
    )
    with pytest.raises(LedgerUnavailable):
        first.advance_mark("r", "h", 1, 5)
    assert first.advance_mark("r", "h", 1, 5).used == 5


# Leases


def test_a_living_holder_keeps_its_runs_and_a_dead_one_does_not(
    first: SqlLedger, second: SqlLedger
) -> None:
    lease = first.take_lease("h", 60)
    first.advance_mark("r", "h", 1, 8)
    with pytest.raises(HolderAlive):
        second.adopt_run("r", "g")
    lease.renew()
    lease.check()
    lease.give_up()
    with pytest.raises(HolderLost):
        lease.check()
    with pytest.raises(HolderLost):
        lease.renew()
    adopted = second.adopt_run("r", "g")
    assert (adopted.holder, adopted.epoch, adopted.answered) == ("g", 2, 8)
    with pytest.raises(HolderLost):
        first.close_run("r", "h", 1, 0, "refund")


def test_a_lease_runs_out_by_the_clock_of_its_holder_first(first: SqlLedger) -> None:
    now = [0.0]
    lease = Lease(first._store, "h", 10.0, lambda: now[0])
    now[0] = 8.9
    lease.check()
    lease.renew()
    now[0] = 17.8
    lease.check()
    now[0] = 18.0
    with pytest.raises(HolderLost):
        lease.check()
    with pytest.raises(HolderLost):  # the database would still say yes; it is too late
        lease.renew()


HOLDER = """
import sys, threading
from curator.errors import LedgerUnavailable
from curator.ledger.problems import (HolderLost)
from curator.ledger.sql_ledger import SqlLedger
from tests.fakes.clock import FakeClock
ledger = SqlLedger.open_database(sys.argv[1], FakeClock())
lease = ledger.take_lease("paused", 1.0)
threading.Thread(target=lease.beat_until, args=(threading.Event(),), daemon=True).start()
epoch = ledger.adopt_run("r", "paused").epoch
ledger.advance_mark("r", "paused", epoch, 20)
lease.check()
print("serving", flush=True)
sys.stdin.readline()
said = []
for attempt in (
    lease.check,
    lambda: ledger.advance_mark("r", "paused", epoch, 21),
    lambda: ledger.close_run("r", "paused", epoch, 0, "refund"),
    lease.renew,
):
    try:
        attempt()
        said.append("yes")
    except HolderLost:
        said.append("lost")
print(*said, flush=True)
"""


def test_a_holder_paused_past_its_lease_releases_nothing_and_refunds_nothing(
    first: SqlLedger, url: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, url],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "serving"
    with pytest.raises(HolderAlive):
        first.adopt_run("r", "new")
    process.send_signal(signal.SIGSTOP)
    time.sleep(2.0)
    adopted = first.adopt_run("r", "new")
    assert (adopted.used, adopted.answered) == (20, 20)
    process.send_signal(signal.SIGCONT)
    told, _ = process.communicate("go on\n", timeout=60)
    assert told.split() == ["lost", "lost", "lost", "lost"]
    assert first.run("r").used == 20
    first.close_run("r", "new", adopted.epoch, 20, "")
    first.verify()


def test_a_process_that_stops_inside_a_transaction_is_thrown_out(
    first: SqlLedger, second: SqlLedger
) -> None:
    def stops(connection: object) -> None:
        assert second.advance_mark("r", "h", 1, 9).used == 9  # waits, until the server ends us

    with pytest.raises(LedgerUnavailable):
        first._store.change(stops)
    assert first.run("r").used == 9
