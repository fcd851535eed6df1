"""Credentials of others that still lie in the folder are named, and none is read."""

from __future__ import annotations

import pytest

from curator.cli import ExitCode, main
from curator.doctor.finding import State
from curator.doctor.handed_over import handed_over
from curator.doctor.subject import Subject
from curator.folder import CuratorFolder


def test_what_init_makes_is_the_stewards_own(folder: CuratorFolder) -> None:
    assert folder.steward_credentials.exists()
    assert handed_over(Subject.of(folder.root)).state is State.OK


def test_what_was_not_handed_over_is_named_until_it_is_removed(
    folder: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [folder.identity / "bob.credentials.json", folder.root / "c.credentials.json"]
    for name, out in zip(("ann", "bob", "cid"), (None, *places), strict=True):
        folder.add_analyst(name, out)
    for path in folder.root.glob("**/*.credentials.json"):
        path.chmod(0)  # by name alone
    finding = handed_over(Subject.of(folder.root))
    left = [folder.root / "analysts" / "ann.credentials.json", *places]
    assert finding.state is State.ATTENTION
    assert finding.facts["left"] == sorted(map(str, left))
    assert "remove" in finding.next_step
    for path in left:
        path.unlink()
    assert handed_over(Subject.of(folder.root)).state is State.OK
    assert main(["analyst", "add", "dan", "--dir", str(folder.root)]) == ExitCode.OK
    assert "then remove it here" in capsys.readouterr().out


def test_many_are_counted(folder: CuratorFolder) -> None:
    for number in range(7):
        (folder.root / "analysts" / f"a{number}.credentials.json").touch()
    assert "a4.credentials.json and 2 more" in handed_over(Subject.of(folder.root)).words


def test_a_folder_that_is_not_there_has_none(folder: CuratorFolder) -> None:
    (folder.root / "analysts").rmdir()
    assert handed_over(Subject.of(folder.root)).state is State.OK
    assert handed_over(Subject.of(None)).state is State.OK
