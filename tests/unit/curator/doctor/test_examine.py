"""Every check has a say, whatever the folder is like, and nothing in it changes."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from curator.doctor import examine as examination
from curator.doctor.examine import CHECKS, Check, examine
from curator.doctor.finding import Finding, State
from curator.doctor.subject import Subject
from curator.folder import CuratorFolder
from tests.unit.curator.doctor.conftest import contents


def found(folder: CuratorFolder) -> dict[str, Finding]:
    return dict(examine(Subject.of(folder.root)))


def half_made(folder: CuratorFolder) -> None:
    shutil.rmtree(folder.identity)


def without_ledger(folder: CuratorFolder) -> None:
    folder.ledger.unlink()


def broken_ledger(folder: CuratorFolder) -> None:
    folder.ledger.write_bytes(b"no database" * 1000)


def broken_configuration(folder: CuratorFolder) -> None:
    folder.config.write_text("[grpc]\nport = 'a'\n")


def binary_configuration(folder: CuratorFolder) -> None:
    folder.config.write_bytes(b"\xff\xfe\x00")


def head_is_a_folder(folder: CuratorFolder) -> None:
    (folder.root / "ledger-head.json").unlink(missing_ok=True)
    (folder.root / "ledger-head.json").mkdir()


BROKEN: dict[str, tuple[Callable[[CuratorFolder], None], str]] = {
    "half made": (half_made, "permissions"),
    "no ledger": (without_ledger, "ledger"),
    "broken ledger": (broken_ledger, "ledger"),
    "broken configuration": (broken_configuration, "configuration"),
    "binary configuration": (binary_configuration, "configuration"),
    "unreadable head": (head_is_a_folder, "ledger"),
}


def test_a_sound_folder_has_no_fault_and_stays_as_it_is(folder: CuratorFolder) -> None:
    before = contents(folder.root)
    findings = found(folder)
    assert list(findings) == [check.name for check in CHECKS]
    assert contents(folder.root) == before
    for name in ("configuration", "permissions", "ledger", "clock", "entropy", "versions"):
        assert findings[name].state is State.OK, findings[name]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_folder_is_told_and_stays_as_it_is(folder: CuratorFolder, name: str) -> None:
    break_it, check = BROKEN[name]
    break_it(folder)
    before = contents(folder.root)
    findings = found(folder)
    assert contents(folder.root) == before
    assert findings[check].state is State.FAULT
    assert list(findings) == [one.name for one in CHECKS]
    for finding in findings.values():
        assert "could not be looked at" not in finding.words


def test_what_is_not_well_says_what_to_do(folder: CuratorFolder) -> None:
    shutil.rmtree(folder.root)
    for finding in found(folder).values():
        assert bool(finding.next_step) == (finding.state is not State.OK)


def test_without_a_folder_the_machine_is_looked_at() -> None:
    names = [name for name, _ in examine(Subject.of(None))]
    assert names == [check.name for check in CHECKS if not check.of_folder]


def test_a_check_that_fails_itself_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Subject) -> Finding:
        msg = "a text with a password"
        raise KeyError(msg)

    def closed(_: Subject) -> Finding:
        raise PermissionError(13, "Permission denied", "a file")

    def bare(_: Subject) -> Finding:
        msg = "text"
        raise ModuleNotFoundError(msg, name="torch")

    for look, words in ((closed, "a file: Permission denied"), (bare, "torch is not installed")):
        monkeypatch.setattr(examination, "CHECKS", (Check(name="broken", look=look),))
        ((_, finding),) = examine(Subject.of(None))
        assert finding.words == f"could not be looked at: {words}"
    last = CHECKS[0]
    monkeypatch.setattr(examination, "CHECKS", (Check(name="broken", look=broken), last))
    (name, finding), (other, _) = examine(Subject.of(None))
    assert (name, finding.state, other) == ("broken", State.FAULT, last.name)
    assert "KeyError" in finding.words
    assert "password" not in finding.words


@pytest.mark.parametrize("name", ["short", "long" * 40])
def test_whoever_listens_at_the_socket_serves(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = CuratorFolder(tmp_path / name)
    folder.root.mkdir()
    monkeypatch.chdir(folder.root)
    assert not Subject.of(folder.root).is_served
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(folder.socket.name)
        assert not Subject.of(folder.root).is_served  # left by a process that was killed
        server.listen()
        assert Subject.of(folder.root).is_served
