"""The table of callers while serving: cut or lost, the last good one stays, and that is said."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from curator.cli import ExitCode, main
from curator.config import load_config
from curator.folder import initialise
from curator.identity.callers_file import CallersDamaged, CallersFile
from curator.identity.tokens import TokenTable
from curator.process.bootstrap import create_curator
from curator.service.caller import Role
from curator.system.bounded_file import TooLarge
from tests.fakes.spoilt import problem, spoilt


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "callers.json"


@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "a folder"])
def test_what_is_damaged_while_serving_changes_nothing(
    path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    serving, steward = TokenTable(path), TokenTable(path)
    token = f"Bearer {steward.add('alice', Role.ANALYST)}"
    assert serving.authenticate(token).name == "alice"
    assert serving.is_intact()
    whole = path.read_bytes()
    if damage in {"gone", "a folder"}:
        path.unlink()
    if damage == "a folder":
        path.mkdir()
    if damage in {"cut", "empty"}:
        path.write_bytes(whole[:-20] if damage == "cut" else b"")
    for _ in range(3):
        assert serving.authenticate(token).name == "alice"
        assert not serving.is_intact()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "put a backup of identity/callers.json back" in caplog.text
    if damage == "a folder":
        path.rmdir()
    path.write_bytes(whole)
    assert serving.is_intact()
    assert "can be read again" in caplog.text
    steward.revoke("alice")
    with pytest.raises(Exception, match="credentials"):
        serving.authenticate(token)


def test_at_the_start_a_damaged_table_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = initialise(tmp_path / "weir")
    callers = folder.identity / "callers.json"
    callers.write_bytes(callers.read_bytes()[:-9])
    with pytest.raises(CallersDamaged, match=r"callers\.json: the table: is not JSON"):
        create_curator(folder, load_config(folder.config))
    for argv in (["serve"], ["analyst", "list"], ["analyst", "add", "zoe"]):
        assert main([*argv, "--dir", str(folder.root)]) == ExitCode.FAILED
        error = capsys.readouterr().err
        assert f"curator: {callers}: " in error
        assert "put a backup of this file back" in error


def test_a_spoilt_table_is_a_named_problem(path: Path) -> None:
    table = TokenTable(path)
    for name in ("alice", "bob"):
        table.add(name, Role.ANALYST)
    good, refused = json.loads(path.read_bytes()), 0
    for content in spoilt(good):
        path.write_bytes(content)
        error = problem(CallersDamaged, CallersFile(path).read)
        if error is not None:
            refused += 1
            assert str(path) in str(error)
    assert refused > 60
    path.write_text(json.dumps([good[0] | {"role": "emperor"}]))
    with pytest.raises(CallersDamaged, match=r"0\.role: must be"):
        CallersFile(path).read()
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(TooLarge, match="more than 16 MiB"):
        CallersFile(path).read()
