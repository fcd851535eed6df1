"""A ledger that goes back under those who write it: nothing is sold twice, and all of them stop."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from curator.accounting.cost import event_cost
from curator.errors import LedgerUnavailable
from curator.ledger.anchor import HeadAnchor
from curator.ledger.lease import Lease
from curator.ledger.problems import ChainBroken, HolderLost, LedgerRestored
from curator.ledger.restored import accept_restored
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.ledger_values import STEP, most_steps, opening, registration
from tests.contract.postgres_server import Server, own_server
from tests.fakes.clock import FakeClock

CLOCK = FakeClock()
LEASE = 60.0


class Replica:
    """One curator's ledger, head and lease; what it was charged counts as delivered at once."""

    ledger: SqlLedger

    def __init__(self, url: str, folder: Path, name: str) -> None:
        self.url = url
        self.name = name
        self.anchor = HeadAnchor(folder / f"{name}.json")
        self.mark = 0
        self.delivered = 0
        self.heads = [0]
        self.now = 0.0
        self.starts = 0
        self.start()

    def start(self) -> None:
        if self.starts:
            self.ledger.close()
        self.starts += 1
        self.ledger = SqlLedger.open_database(self.url, CLOCK, self.anchor)
        self.lease: Lease = self.ledger.take_lease(f"{self.name}-{self.starts}", LEASE)
        settling = self.ledger._store._settling
        assert settling is not None
        settling._monotonic = lambda: self.now

    def open(self, run: str, steps: int) -> None:
        self.try_to(lambda: self.ledger.open_run(opening(run, steps), self.name))

    def deliver(self, run: str, mark: int) -> None:
        self.try_to(lambda: self.ledger.advance_mark(run, self.name, 1, mark))
        self.delivered, self.mark = self.delivered + mark - self.mark, mark

    def try_to(self, call: Callable[[], object]) -> None:
        """Do it, again if the server was gone, and see where the head is."""
        try:
            try:
                call()
            except LedgerRestored:
                raise
            except LedgerUnavailable:
                call()
        finally:
            self.heads.append(self.anchor.read().head[0])

    def beat(self) -> None:
        self.try_to(self.lease.renew)


@pytest.fixture
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@pytest.fixture
def pair(server: Server, tmp_path: Path) -> Iterator[tuple[Replica, Replica]]:
    url = server.fresh()
    busy, idle = (Replica(url, tmp_path, name) for name in ("busy", "idle"))
    busy.ledger.register_dataset(registration())
    yield busy, idle
    busy.ledger.close()
    idle.ledger.close()


def stopped(replica: Replica) -> bool:
    with pytest.raises(LedgerRestored):
        replica.ledger.head()
    with pytest.raises(LedgerRestored):
        replica.ledger.register_dataset(registration("other"))
    return replica.ledger.lost is not None


def check_heads(*replicas: Replica) -> None:
    for replica in replicas:
        assert replica.heads == sorted(replica.heads)


def test_data_that_are_put_back_stop_the_busy_and_the_idle_one(
    server: Server, pair: tuple[Replica, Replica]
) -> None:
    busy, idle = pair
    busy.open("r", most_steps())
    busy.deliver("r", 100)
    server.copy("copy")
    busy.deliver("r", most_steps())
    idle.beat()
    server.put_back("copy")
    with pytest.raises(LedgerRestored, match="accept-restored"):
        busy.deliver("r", most_steps())
    with pytest.raises(LedgerRestored):
        idle.beat()
    assert stopped(busy)
    assert stopped(idle)
    for replica in pair:
        with pytest.raises((HolderLost, LedgerRestored)):
            replica.lease.renew()
        with pytest.raises(HolderLost):
            replica.lease.check()
        with pytest.raises(LedgerRestored):
            replica.start()
    check_heads(*pair)
    assert busy.delivered == most_steps()
    ledger = SqlLedger.open_database(busy.url, CLOCK)
    accept_restored(ledger, idle.anchor, "test")
    assert ledger.account("d").spent == event_cost(STEP) * most_steps()
    ledger.close()


def test_what_only_the_busy_one_misses_after_a_failover_stops_the_idle_one_too(
    server: Server, pair: tuple[Replica, Replica]
) -> None:
    busy, idle = pair
    idle.beat()
    server.make_standby("standby")
    busy.open("r", most_steps())
    busy.deliver("r", most_steps())
    server.fail_over_to("standby")
    with pytest.raises(LedgerUnavailable, match="compare"):  # it finds its own head
        idle.open("s", most_steps())
    idle.beat()
    with pytest.raises(LedgerRestored):
        busy.beat()
    idle.now = LEASE + 1
    with pytest.raises(LedgerRestored, match="another curator"):
        idle.beat()
    assert stopped(busy)
    assert stopped(idle)
    assert busy.delivered + idle.delivered == most_steps()
    check_heads(*pair)
    for replica in pair:
        with pytest.raises(LedgerRestored):
            replica.start()
    ledger = SqlLedger.open_database(idle.url, CLOCK)
    accept_restored(ledger, idle.anchor, "test")  # its own head lacks nothing
    assert ledger.account("d").spent == event_cost(STEP) * most_steps()
    ledger.close()
    idle.start()
    with pytest.raises(LedgerRestored):
        busy.start()
    ledger = SqlLedger.open_database(busy.url, CLOCK)
    accept_restored(ledger, busy.anchor, "test")
    assert ledger.account("d").spent == event_cost(STEP) * most_steps()
    ledger.close()
    busy.start()


def test_what_others_sold_meanwhile_comes_on_top_of_what_was_lost(
    server: Server, pair: tuple[Replica, Replica]
) -> None:
    """The busy one dies with its server, so that nobody knows what was lost until it is back."""
    busy, idle = pair
    idle.open("before", 5)
    idle.deliver("before", 5)
    server.make_standby("standby")
    busy.open("r", 100)
    busy.deliver("r", 100)
    server.fail_over_to("standby")
    idle.now = 1.0
    idle.beat()
    idle.now = LEASE + 2
    idle.mark = 0
    idle.open("s", most_steps() - 5)
    idle.deliver("s", most_steps() - 5)
    with pytest.raises(LedgerRestored):
        busy.start()
    with pytest.raises(LedgerRestored, match="another curator"):
        idle.beat()
    ledger = SqlLedger.open_database(busy.url, CLOCK)
    accept_restored(ledger, busy.anchor, "test")
    spent = ledger.account("d").spent
    assert spent == event_cost(STEP) * (busy.delivered + idle.delivered)
    ledger.close()
    check_heads(*pair)


def test_a_server_that_only_started_again_goes_on_after_a_lease(
    server: Server, pair: tuple[Replica, Replica]
) -> None:
    busy, idle = pair
    busy.open("r", 100)
    server.stop()
    server.start()
    with pytest.raises(LedgerUnavailable, match="compare"):
        busy.deliver("r", 10)
    idle.beat()
    busy.now = LEASE - 1
    with pytest.raises(LedgerUnavailable, match="compare"):
        busy.deliver("r", 10)
    busy.now = LEASE + 1
    busy.deliver("r", 10)
    idle.open("s", 10)  # whoever waited has waited for all
    assert busy.ledger.lost is None
    assert idle.ledger.lost is None


def test_a_commit_that_is_lost_before_it_is_noted_is_missed(
    server: Server, pair: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, _ = pair
    busy.open("r", most_steps())
    server.make_standby("standby")
    advance = HeadAnchor.advance

    def after_the_failover(*arguments: Any) -> Any:
        monkeypatch.setattr(HeadAnchor, "advance", advance)
        server.fail_over_to("standby")
        return advance(*arguments)

    monkeypatch.setattr(HeadAnchor, "advance", after_the_failover)
    busy.deliver("r", most_steps())
    with pytest.raises(LedgerRestored):
        busy.beat()
    check_heads(busy)


# A ledger in a file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[SqlLedger]:
    """Of a run of 100 steps; a copy was made when 10 were used, and 50 are."""
    ledger = SqlLedger.open_writer(path, CLOCK, anchor_of(path))
    ledger.register_dataset(registration())
    ledger.open_run(opening("r", 100), "h")
    ledger.advance_mark("r", "h", 1, 10)
    source = sqlite3.connect(path)
    copy = sqlite3.connect(path.with_name("copy"))
    source.backup(copy)
    source.close()
    copy.close()
    shutil.copy(path.with_name("head.json"), path.with_name("copy.json"))
    ledger.advance_mark("r", "h", 1, 50)
    yield ledger
    ledger.close()


def anchor_of(path: Path) -> HeadAnchor:
    return HeadAnchor(path.with_name("head.json"))


def replace(path: Path) -> None:
    for name in ("ledger.sqlite-wal", "ledger.sqlite-shm"):
        path.with_name(name).unlink(missing_ok=True)
    path.with_name("copy").rename(path)


def move_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace_all(path: Path) -> None:
    """As if a whole folder was put back, with the head that should tell."""
    replace(path)
    path.with_name("copy.json").rename(path.with_name("head.json"))


@pytest.mark.parametrize("fault", [replace, replace_all])
def test_a_file_that_is_put_back_takes_no_change(
    ledger: SqlLedger, path: Path, fault: Callable[[Path], None]
) -> None:
    known = anchor_of(path).read()
    fault(path)
    for mark in (60, 70):
        with pytest.raises(LedgerUnavailable):
            ledger.advance_mark("r", "h", 1, mark)
    assert not ledger.is_writable()
    ledger.close()
    assert anchor_of(path).read() == known
    with pytest.raises(LedgerRestored):
        SqlLedger.open_writer(path, CLOCK, anchor_of(path))


def test_a_file_that_is_written_over_is_never_behind_what_was_charged(
    ledger: SqlLedger, path: Path, tmp_path: Path
) -> None:
    """The connections go on in a log that has lost its name; only a restart sees the copy."""
    for name in ("ledger.sqlite-wal", "ledger.sqlite-shm"):
        path.with_name(name).unlink()
    path.write_bytes(path.with_name("copy").read_bytes())
    delivered = 50
    with suppress(LedgerUnavailable):
        delivered = ledger.advance_mark("r", "h", 1, 60).used
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in ("ledger.sqlite", "head.json"):
        shutil.copy(path.with_name(name), killed)
    with pytest.raises(LedgerRestored):
        SqlLedger.open_writer(killed / path.name, CLOCK, anchor_of(killed / path.name))
    ledger.close()
    with suppress(LedgerRestored, ChainBroken, LedgerUnavailable):
        again = SqlLedger.open_writer(path, CLOCK, anchor_of(path))
        assert again.run("r").used >= delivered
        again.close()


@pytest.mark.parametrize("fault", [replace, replace_all, move_away])
def test_a_file_that_is_put_back_is_noticed_without_a_change(
    ledger: SqlLedger, path: Path, fault: Callable[[Path], None]
) -> None:
    assert ledger.is_writable()
    fault(path)
    assert not ledger.is_writable()
    assert ledger.lost is not None
    with pytest.raises(LedgerRestored):
        ledger.statement("d")


def test_a_head_that_is_deleted_is_written_again(ledger: SqlLedger, path: Path) -> None:
    known = anchor_of(path).read()
    path.with_name("head.json").unlink()
    ledger.advance_mark("r", "h", 1, 50)  # writes nothing in the ledger
    assert anchor_of(path).read() == known
