"""A checkpoint saves a start the replay of what was verified, and keeps all that it promises."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from curator.ledger import checkpoint, entries, postgres
from curator.ledger.anchor import HeadAnchor
from curator.ledger.checkpoint import Checkpoint
from curator.ledger.datasets_and_runs import NOTHING
from curator.ledger.entries import SpendAdded
from curator.ledger.problems import ChainBroken, LedgerRestored, RunExists
from curator.ledger.sql_ledger import SqlLedger
from curator.overview.history import History
from tests.contract.ledger_values import SETUP, opening, registration
from tests.contract.postgres_server import postgres_or_skip
from tests.fakes.clock import FakeClock

CLOCK = FakeClock()


class Folder:
    """A ledger's files, and how many entries a start replays."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.file = root / "ledger.sqlite", root / "ledger-checkpoint"
        self.anchor = HeadAnchor(root / "head.json")
        self.history = History()
        self.replayed = 0
        monkeypatch.setattr(checkpoint, "WORTH", 1)
        decode = entries.decode

        def counted(kind: str, body: str) -> entries.LedgerEvent:
            self.replayed += 1
            return decode(kind, body)

        monkeypatch.setattr(entries, "decode", counted)

    def open(self, anchor: HeadAnchor | None = None) -> SqlLedger:
        self.replayed, self.history = 0, History()
        known = Checkpoint(self.file, self.history)
        return SqlLedger.open_writer(self.path, CLOCK, anchor or self.anchor, known)

    def edit(self, statement: str) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            for table in ("entries", "setup_payloads"):
                for verb in ("update", "delete"):
                    connection.execute(f"DROP TRIGGER IF EXISTS {table}_no_{verb}")
            connection.execute(statement)
            connection.commit()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a ledger that was opened again after two runs, one closed."""
    root = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patch:
        write(Folder(root, patch))
    return root


@pytest.fixture(scope="module")
def grown(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same files, with a little that was written since."""
    root = tmp_path_factory.mktemp("grown")
    shutil.copytree(written, root, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        grow(Folder(root, patch))
    return root


@pytest.fixture
def folder(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return Folder(tmp_path, monkeypatch)


def write(made: Folder) -> None:
    ledger = made.open()
    ledger.register_dataset(registration())
    for name in ("gone", "still"):
        ledger.open_run(opening(name, 100, setup=SETUP), "h")
        ledger.begin_setup(name, "h", 1)
        ledger.store_setup(name, "h", 1, b"released")
        ledger.advance_mark(name, "h", 1, 40)
    ledger.close_run("gone", "h", 1, 33, "done")
    ledger.close()
    made.open().close()
    assert made.replayed == 10


def grow(folder: Folder) -> None:
    """Write three entries after the checkpoint; the second start replays none of it again."""
    ledger = folder.open()
    assert folder.replayed == 0
    ledger.open_run(opening("new", 5), "h")
    ledger.advance_mark("still", "h", 1, 50)
    ledger.close_run("still", "h", 1, 50, "done")
    ledger.close()


def test_only_what_was_written_since_is_replayed(folder: Folder) -> None:
    grow(folder)
    ledger = folder.open()
    assert folder.replayed == 3
    assert [run.run_id for run in ledger.open_runs()] == ["new"]
    with pytest.raises(RunExists):
        ledger.open_run(opening("gone", 5), "h")
    ledger.verify()
    ledger.close()
    folder.open().close()
    assert folder.replayed == 0
    assert stat.S_IMODE(folder.file.stat().st_mode) == 0o600


def test_the_history_goes_on_where_it_was(folder: Folder) -> None:
    grow(folder)
    folder.open().close()
    assert folder.replayed == 3
    kept = folder.history.points("d")
    folder.file.unlink()
    ledger = folder.open()
    assert folder.replayed == 13
    folder.history.read(ledger)
    ledger.close()
    assert kept[-1] == folder.history.points("d")[-1]
    assert [point.spent for point in kept] == sorted(point.spent for point in kept)


TAMPERED = [
    ("UPDATE runs SET used = 20 WHERE run_id = 'gone'", "run 'gone'"),
    ("UPDATE runs SET status = 'open' WHERE run_id = 'gone'", "run 'gone'"),
    ("UPDATE runs SET close_reason = 'other' WHERE run_id = 'gone'", "run 'gone'"),
    ("UPDATE runs SET analyst = 'bob' WHERE run_id = 'gone'", "run 'gone'"),
    ("UPDATE runs SET position = 77 WHERE run_id = 'gone'", "run 'gone'"),
    ("DELETE FROM runs WHERE run_id = 'gone'", "run 'gone'"),
    ("UPDATE runs SET used = 39 WHERE run_id = 'still'", "run 'still'"),
    ("UPDATE runs SET status = 'closed' WHERE run_id = 'new'", "run 'new'"),
    ("DELETE FROM runs WHERE run_id = 'still'", "run 'still'"),
    ("UPDATE runs SET step = '[]' WHERE run_id = 'still'", "cannot be read"),
    ("UPDATE runs SET used = 1 WHERE run_id = 'new'", "run 'new'"),
    ("DELETE FROM runs WHERE run_id = 'new'", "run 'new'"),
    ("UPDATE totals SET spent = reserved WHERE analyst = ''", "runs of data set 'd'"),
    ("UPDATE totals SET reserved = spent WHERE analyst = 'ann'", "runs of data set 'd'"),
    ("UPDATE totals SET num_closed = 7", "runs of data set 'd'"),
    ("UPDATE totals SET spent = '[]'", "cannot be read"),
    ("DELETE FROM totals", "runs of data set 'd'"),
    ("UPDATE datasets SET epsilon = 20", "data set 'd'"),
    ("UPDATE datasets SET cap = 2", "data set 'd'"),
    ("UPDATE setup_payloads SET payload = x'00' WHERE run_id = 'gone'", "setup of run 'gone'"),
    ("DELETE FROM setup_payloads WHERE run_id = 'gone'", "setup of run 'gone'"),
    ("UPDATE entries SET body = replace(body, '40', '30') WHERE seq = 5", "entry 5"),
    ("UPDATE entries SET at = '' WHERE seq = 2", "entry 2"),
    ("UPDATE entries SET kind = 'x' WHERE seq = 12", "entry 12"),
    ("DELETE FROM entries WHERE seq = 3", "entry 4"),
    ("DELETE FROM entries WHERE seq = 13", "run 'still'"),
]


@pytest.mark.parametrize(("statement", "named"), TAMPERED)
def test_a_changed_ledger_is_refused_and_named(
    grown: Path, statement: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(grown, tmp_path, dirs_exist_ok=True)
    folder = Folder(tmp_path, monkeypatch)
    folder.edit(statement)
    with pytest.raises(ChainBroken, match=named):
        folder.open(HeadAnchor(tmp_path / "of-nothing.json"))


def test_a_chain_that_went_back_behind_the_checkpoint_is_refused(
    folder: Folder, tmp_path: Path
) -> None:
    ledger = SqlLedger.open_writer(tmp_path / "older.sqlite", CLOCK)
    ledger.register_dataset(registration())
    ledger.close()
    (tmp_path / "older.sqlite").rename(folder.path)
    with pytest.raises(LedgerRestored):
        folder.open()
    folder.open(HeadAnchor(tmp_path / "of-nothing.json")).close()
    assert folder.replayed == 1  # the checkpoint is of another chain and says nothing of this one


def with_digest(text: str) -> str:
    return f"{checkpoint._digest(text)}\n{text}"


def changed(folder: Folder, key: str, value: object) -> str:
    text = folder.file.read_text().partition("\n")[2]
    return with_digest(json.dumps({**json.loads(text), key: value}))


@pytest.mark.parametrize(
    "key", ["damaged", "no text", "software", "head", "closed", "position", "totals", "watched"]
)
def test_a_checkpoint_that_does_not_fit_is_left_aside(
    folder: Folder, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    if key == "damaged":
        folder.file.write_text(folder.file.read_text().replace("active", "paused"))
    elif key == "no text":
        folder.file.write_bytes(b"\xff\x00")
    else:
        values = {"head": [10, "0" * 64], "position": 1, "totals": [], "watched": {"courses": 3}}
        folder.file.write_text(changed(folder, key, values.get(key, "other")))
    with caplog.at_level(logging.WARNING):
        ledger = folder.open()
    assert folder.replayed == 10
    assert bool(caplog.records) == (key not in {"software", "head"})
    ledger.verify()
    ledger.close()
    folder.open().close()
    assert folder.replayed == 0  # the right one is kept again


def test_a_checkpoint_and_totals_that_lie_alike_do_not_stand_before_a_whole_check(
    folder: Folder,
) -> None:
    """What the threat model says of somebody who writes into the curator's folder."""
    folder.edit("UPDATE totals SET spent = reserved")
    with closing(sqlite3.connect(folder.path)) as connection:
        connection.row_factory = sqlite3.Row
        lies = [dict(row) for row in connection.execute("SELECT * FROM totals")]
    folder.file.write_text(changed(folder, "totals", lies))
    ledger = folder.open()
    with pytest.raises(ChainBroken, match="runs of data set 'd'"):
        ledger.verify()
    ledger.close()
    folder.file.unlink()
    with pytest.raises(ChainBroken, match="runs of data set 'd'"):
        folder.open()


def test_a_full_disk_costs_the_checkpoint_alone(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(folder)
    before, folder.replayed = folder.file.read_bytes(), 0

    def full(*_: object) -> None:
        raise OSError

    ledger = SqlLedger.open_reader(folder.path, CLOCK)
    monkeypatch.setattr("curator.ledger.checkpoint.os.fsync", full)
    with ledger._store.reading() as connection:
        Checkpoint(folder.file, History()).verify(connection)
    assert folder.replayed == 3
    ledger.close()
    assert folder.file.read_bytes() == before
    assert not list(folder.file.parent.glob("*.partial"))


def test_a_small_ledger_and_a_command_keep_none(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.file.unlink()
    SqlLedger.open_writer(folder.path, CLOCK, None, Checkpoint(folder.file)).close()
    monkeypatch.setattr(checkpoint, "WORTH", 11)
    folder.open().close()
    assert not folder.file.exists()


def test_a_checkpoint_serves_postgresql_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = postgres_or_skip()
    url, seen = server.fresh(), Folder(tmp_path, monkeypatch)

    def opened() -> SqlLedger:
        seen.replayed = 0
        known = Checkpoint(seen.file, History())
        return SqlLedger.open_database(url, CLOCK, None, known)

    ledger = opened()
    ledger.register_dataset(registration())
    ledger.open_run(opening("gone", 9), "h")
    ledger.advance_mark("gone", "h", 1, 4)
    ledger.close_run("gone", "h", 1, 4, "done")
    ledger.close()
    opened().close()
    assert seen.replayed == 4
    ledger = opened()
    ledger.decide(SpendAdded(dataset="d", cost=NOTHING, reason="test"))
    ledger.close()
    opened().close()
    assert seen.replayed == 1
    engine = postgres.maintenance_engine(postgres.database_url(url))
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE runs SET used = 3")
    engine.dispose()
    with pytest.raises(ChainBroken, match="run 'gone'"):
        opened()
