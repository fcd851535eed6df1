"""A folder that is whole and its owner's alone, and one that is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from curator.doctor.finding import State
from curator.doctor.permissions import permissions
from curator.doctor.subject import Subject
from curator.folder import CuratorFolder


def test_what_init_makes_is_whole(folder: CuratorFolder) -> None:
    assert permissions(Subject.of(folder.root)).state is State.OK


@pytest.mark.parametrize("name", ["", "identity", "ledger.sqlite", "identity/server.key"])
@pytest.mark.parametrize("bits", [0o040, 0o004, 0o020])
def test_what_others_may_use_is_named(folder: CuratorFolder, name: str, bits: int) -> None:
    path = folder.root / name
    path.chmod(path.stat().st_mode | bits)
    finding = permissions(Subject.of(folder.root))
    assert finding.state is State.ATTENTION
    assert finding.facts["open_to_others"] == [str(path)]
    assert "chmod" in finding.next_step


@pytest.mark.parametrize(
    "name", ["identity/server.key", "identity/ca.pem", "identity/callers.json", "datasets"]
)
def test_what_is_missing_is_named(folder: CuratorFolder, name: str) -> None:
    path = folder.root / name
    path.rename(folder.root.parent / "away")
    finding = permissions(Subject.of(folder.root))
    assert finding.state is State.FAULT
    assert finding.facts["missing"] == [name]
    assert "curator init" in finding.next_step


def test_files_of_another_user_are_named(
    folder: CuratorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    finding = permissions(Subject.of(folder.root))
    assert finding.state is State.ATTENTION
    assert "owns the folder" in finding.next_step


def test_a_folder_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    assert permissions(Subject.of(tmp_path / "nowhere")).state is State.FAULT
