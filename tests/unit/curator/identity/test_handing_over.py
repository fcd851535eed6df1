"""The steward's commands write credentials of either kind, for either role."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analyst.client.credentials import load_credentials
from curator.cli import ExitCode, main
from curator.folder import CuratorFolder, initialise
from curator.identity.callers_file import Proof
from curator.service.caller import Caller, Role


@pytest.fixture
def folder(tmp_path: Path) -> CuratorFolder:
    return initialise(tmp_path / "curator")


def run(folder: CuratorFolder, *arguments: str) -> int:
    return main(["analyst", *arguments, "--dir", str(folder.root)])


def handed(folder: CuratorFolder, name: str) -> dict[str, Any]:
    path = folder.root / "analysts" / f"{name}.credentials.json"
    assert path.stat().st_mode & 0o077 == 0
    load_credentials(path)  # what the analyst reads
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_a_token_for_an_auditor(folder: CuratorFolder) -> None:
    assert run(folder, "add", "eve", "--role", "auditor") == ExitCode.OK
    token = handed(folder, "eve")["token"]
    assert folder.tokens.identify(f"Bearer {token}", None) == Caller("eve", Role.AUDITOR)


def test_a_certificate_is_handed_over_instead_of_a_token(
    folder: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "add", "alice", "--certificate", "--expires-days", "30") == ExitCode.OK
    content = handed(folder, "alice")
    assert "token" not in content
    assert content["client_key"].startswith("-----BEGIN PRIVATE KEY-----")
    (listed,) = [one for one in folder.tokens.callers() if one.name == "alice"]
    assert (listed.role, listed.proof) == (Role.ANALYST, Proof.CERTIFICATE)
    assert content["client_key"] not in (folder.identity / "callers.json").read_text()
    run(folder, "list")
    assert "alice: analyst, certificate ends " in capsys.readouterr().out


def test_rotating_keeps_the_role_and_may_change_the_kind(folder: CuratorFolder) -> None:
    run(folder, "add", "eve", "--role", "auditor")
    assert run(folder, "rotate", "eve", "--certificate") == ExitCode.OK
    assert "token" not in handed(folder, "eve")
    assert run(folder, "rotate", "eve") == ExitCode.OK
    token = handed(folder, "eve")["token"]
    assert folder.tokens.identify(f"Bearer {token}", None).role is Role.AUDITOR


def test_a_name_is_checked_before_a_certificate_is_made(
    folder: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("../alice", "Alice"):
        assert run(folder, "add", name, "--certificate") == ExitCode.FAILED
    assert run(folder, "rotate", "a/nobody") == ExitCode.FAILED
    assert run(folder, "rotate", "nobody", "--certificate") == ExitCode.FAILED
    assert "nobody" in capsys.readouterr().err
    assert list((folder.root / "analysts").iterdir()) == []


def test_nobody_is_made_a_steward(folder: CuratorFolder) -> None:
    assert run(folder, "add", "mallory", "--role", "steward") == ExitCode.USAGE
