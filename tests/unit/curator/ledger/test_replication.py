"""What a server tells of its standbys, with and without one, waited for or not."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pytest

from curator.ledger.postgres import Replication, replication_of
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.postgres_server import Server, own_server
from tests.fakes.clock import FakeClock


@pytest.fixture
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


def until(told: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not told():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def warnings(caplog: pytest.LogCaptureFixture, url: str) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        SqlLedger.open_database(url, FakeClock()).close()
    return [record.getMessage() for record in caplog.records]


def test_a_standby_for_which_no_commit_waits_is_told(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    url = server.fresh()
    alone = replication_of(url)
    assert (alone.num_standbys, alone.num_synchronous) == (0, 0)
    assert (alone.synchronous_commit, alone.synchronous_standby_names) == ("on", "")
    assert not alone.is_synchronous
    assert not alone.may_forget
    assert warnings(caplog, url) == []

    server.make_standby("standby")
    with server.running_standby("standby"):
        until(lambda: replication_of(url).num_standbys == 1)
        assert replication_of(url).may_forget
        (warning,) = warnings(caplog, url)
        assert "synchronous_standby_names" in warning

        server.run_sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        server.run_sql("SELECT pg_reload_conf()")
        until(lambda: replication_of(url).num_synchronous == 1)
        assert replication_of(url).is_synchronous
        assert not replication_of(url).may_forget
        assert warnings(caplog, url) == []


def test_a_role_without_the_right_still_counts_standbys(server: Server) -> None:
    url = server.fresh()
    server.run_sql("CREATE ROLE plain LOGIN")
    server.make_standby("standby")
    with server.running_standby("standby"):
        until(lambda: replication_of(url).num_standbys == 1)
        told = replication_of(url.replace("postgres@", "plain@"))
        assert (told.num_standbys, told.num_synchronous) == (1, None)
        assert told.may_forget


@pytest.mark.parametrize("commit", ["off", "local", "remote_write"])
def test_a_commit_that_does_not_wait_for_a_standbys_disk_may_be_forgotten(commit: str) -> None:
    told = Replication(
        version="15.1",
        synchronous_commit=commit,
        synchronous_standby_names="*",
        num_standbys=1,
        num_synchronous=1,
    )
    assert told.may_forget
