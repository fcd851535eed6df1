"""The time of a synced write is measured without a trace; disks that forget are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from curator.config import CuratorConfig, LedgerSection
from curator.doctor import disk as module
from curator.doctor.disk import disk
from curator.doctor.finding import Finding, State
from curator.doctor.subject import Subject
from curator.folder import CuratorFolder
from tests.unit.curator.doctor.conftest import contents


@pytest.fixture
def mounted(folder: CuratorFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's table of mounts, to be written by a test."""
    table = tmp_path / "mountinfo"
    monkeypatch.setattr(module, "_MOUNTS", table)
    mount(table, "/", "ext4")
    monkeypatch.setattr(module, "_fsync_seconds", lambda _: 0.001)
    monkeypatch.setattr(module, "_FREE_BYTES", 0)
    return table


def mount(table: Path, point: str, kind: str) -> None:
    line = f"36 35 98:0 / {point} rw,noatime shared:1 - {kind} /dev/root rw\n"
    table.write_text((table.read_text() if table.exists() else "") + line)


def look(folder: CuratorFolder) -> Finding:
    return disk(Subject.of(folder.root))


def test_it_is_measured_where_ledger_and_head_are(folder: CuratorFolder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "head"
    elsewhere.mkdir()
    ledger = LedgerSection(head_file=str(elsewhere / "head.json"))
    before = contents(tmp_path)
    finding = disk(replace(Subject.of(folder.root), config=CuratorConfig(ledger=ledger)))
    assert contents(tmp_path) == before
    places = finding.facts["places"]
    assert isinstance(places, list)
    assert [one["path"] for one in places] == [str(folder.root), str(elsewhere)]
    for one in places:
        assert one["fsync_seconds"] is None or one["fsync_seconds"] > 0


def test_with_a_database_only_the_head_is_here(folder: CuratorFolder, tmp_path: Path) -> None:
    ledger = LedgerSection(url="postgresql://nowhere/weir", head_file=str(tmp_path / "head.json"))
    finding = disk(replace(Subject.of(folder.root), config=CuratorConfig(ledger=ledger)))
    places = finding.facts["places"]
    assert isinstance(places, list)
    assert [one["path"] for one in places] == [str(tmp_path)]


def test_a_good_disk_is_well(folder: CuratorFolder, mounted: Path) -> None:
    finding = look(folder)
    assert finding.state is State.OK
    assert "1.00 ms a synced write, ext4" in finding.words


@pytest.mark.parametrize(
    ("kind", "words"),
    [("tmpfs", "forgotten"), ("nfs4", "network"), ("cifs", "network"), ("ext4", "")],
)
def test_a_file_system_that_forgets_or_lies_is_told(
    folder: CuratorFolder, mounted: Path, kind: str, words: str
) -> None:
    mount(mounted, str(folder.root.parent).replace(" ", "\\040"), kind)
    mount(mounted, "/elsewhere", "tmpfs")
    finding = look(folder)
    assert (finding.state is State.ATTENTION) == bool(words)
    assert words in finding.next_step


def test_a_mount_point_with_a_space_is_found(
    tmp_path: Path, mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "my disk"
    place.mkdir()
    mount(mounted, str(place).replace(" ", "\\040"), "ramfs")
    assert disk(Subject.of(place)).state is State.ATTENTION


def test_a_slow_disk_and_a_full_one_are_told(
    folder: CuratorFolder, mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_fsync_seconds", lambda _: 0.2)
    assert "faster disk" in look(folder).next_step
    monkeypatch.setattr(module, "_FREE_BYTES", 1 << 70)
    assert "make room" in look(folder).next_step


def test_a_folder_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    finding = disk(Subject.of(tmp_path / "nowhere"))
    assert finding.state is State.FAULT
    assert "nowhere" in finding.words
