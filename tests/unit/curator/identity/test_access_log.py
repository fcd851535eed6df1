"""Each change of who may ask is on record before it is in force."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from curator.cli import main
from curator.folder import CuratorFolder, initialise


@pytest.fixture
def folder(tmp_path: Path) -> CuratorFolder:
    return initialise(tmp_path / "weir")


def log_file(folder: CuratorFolder) -> Path:
    return folder.identity / "access-log.jsonl"


def lines(folder: CuratorFolder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_file(folder).read_text().splitlines()]


def test_adding_rotating_and_revoking_are_lines(
    folder: CuratorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.7 50000 192.0.2.1 22")
    monkeypatch.setenv("SUDO_USER", "carol")
    place = ["--dir", str(folder.root), "--quiet"]
    assert main(["analyst", "add", "alice", *place]) == 0
    assert main(["analyst", "rotate", "alice", "--certificate", *place]) == 0
    assert main(["analyst", "revoke", "alice", *place]) == 0
    assert main(["analyst", "add", "eve", "--role", "auditor", *place]) == 0
    found = lines(folder)
    assert [(one["what"], one["whom"], one["role"]) for one in found] == [
        ("add", "steward", "steward"),
        ("add", "alice", "analyst"),
        ("rotate", "alice", "analyst"),
        ("revoke", "alice", "analyst"),
        ("add", "eve", "auditor"),
    ]
    assert [one.get("proof") for one in found[1:4]] == ["token", "certificate", None]
    for one in found[1:]:
        assert one["time"].endswith("+00:00")
        assert one["by"]
        assert one["host"]
        assert (one["ssh_from"], one["sudo_user"]) == ("192.0.2.7", "carol")
    assert stat.S_IMODE(log_file(folder).stat().st_mode) == 0o600


def test_no_line_holds_what_proves_a_caller(folder: CuratorFolder) -> None:
    credentials = json.loads(folder.add_analyst("alice").read_text())
    text = log_file(folder).read_text()
    assert credentials["token"] not in text
    (entry,) = (
        one
        for one in json.loads((folder.identity / "callers.json").read_text())
        if one["name"] == "alice"
    )
    assert entry["token_sha256"] not in text


CHANGES: list[Callable[[CuratorFolder], object]] = [
    lambda folder: folder.add_analyst("bob"),
    lambda folder: folder.add_analyst("bob", certificate=True),
    lambda folder: folder.rotate_analyst("alice"),
    lambda folder: folder.rotate_analyst("alice", certificate=True),
    lambda folder: folder.tokens.revoke("alice"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_cannot_be_recorded_does_not_happen(
    folder: CuratorFolder, change: Callable[[CuratorFolder], object]
) -> None:
    handed = folder.add_analyst("alice")
    table, credentials = folder.identity / "callers.json", handed.read_bytes()
    before = table.read_bytes()
    log_file(folder).unlink()
    log_file(folder).mkdir()
    with pytest.raises(OSError, match=r"access-log\.jsonl"):
        change(folder)
    assert table.read_bytes() == before
    assert handed.read_bytes() == credentials
    assert not (folder.root / "analysts" / "bob.credentials.json").exists()


def test_a_line_is_on_the_disk_before_the_change(
    folder: CuratorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("curator.identity.callers_file.write_private", fail)
    with pytest.raises(OSError, match="No space"):
        folder.add_analyst("alice")
    assert lines(folder)[-1]["whom"] == "alice"
    assert [one.name for one in folder.tokens.callers()] == ["steward"]


def test_a_cut_line_is_shown_as_damaged_and_the_next_one_is_whole(
    folder: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with log_file(folder).open("a") as file:
        file.write('{"time": "2027')
    folder.add_analyst("alice")
    assert main(["analyst", "log", "--dir", str(folder.root), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [one["damaged"] for one in shown] == [False, True, False]
    assert shown[2]["whom"] == "alice"
    assert main(["analyst", "log", "--dir", str(folder.root)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert " add steward: role steward, " in said[0]
    assert said[1].startswith("line 2 is damaged")
