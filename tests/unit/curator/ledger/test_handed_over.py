"""Files of a ledger that people put back or hand on: the head's file, and exports."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from curator.cli import ExitCode, main
from curator.errors import LedgerUnavailable
from curator.folder import CuratorFolder, initialise
from curator.ledger.anchor import HeadAnchor, checked_head
from tests.fakes.spoilt import problem, spoilt

HEAD = {
    "seq": 3,
    "digest": "d" * 64,
    "datasets-version-1": {
        "digits": {
            "registration": {"name": "digits", "epsilon": 10.0, "delta": 1e-5, "relation": "a",
                             "unit": "record", "facts_json": "{}"},
            "favourite": None, "cap": 8.0, "status": "active", "reserved": ["5", "inf"],
        }
    },
}  # fmt: skip


def test_a_spoilt_head_is_a_named_problem(tmp_path: Path) -> None:
    path = tmp_path / "head.json"
    refused = 0
    for content in spoilt(HEAD):
        path.write_bytes(content)
        error = problem(LedgerUnavailable, HeadAnchor(path).read)
        if error is not None:
            refused += 1
            assert f"the ledger's head in {path} cannot be read" in str(error)
            assert "put the right file back" in str(error)
    assert refused > 100
    with pytest.raises(ValueError, match=r"^seq: must be at least 0$"):
        checked_head('{"seq": -5, "digest": "' + "d" * 64 + '", "datasets-version-1": {}}')


@pytest.fixture
def weir(tmp_path: Path) -> CuratorFolder:
    return initialise(tmp_path / "weir")


def test_a_head_that_cannot_be_written_leaves_nothing(
    weir: CuratorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    path = weir.root.parent / "head.json"
    anchor = HeadAnchor(path)
    with pytest.raises(LedgerUnavailable, match="cannot be kept"):
        anchor.replace(HeadAnchor(weir.root / "ledger-head.json").read())
    assert not list(path.parent.glob(".*.partial"))
    assert not path.exists()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"[" * 100_000 + b"\n", ExitCode.LEDGER),
        (b"", ExitCode.LEDGER),
        (b'{"format": 1}\n' * 3, ExitCode.LEDGER),
        (gzip.compress(b"\0" * (1 << 24)), None),
        (b"0" * (5 << 20), ExitCode.FAILED),
        (b"\0" * (5 << 20), ExitCode.FAILED),
    ],
    ids=["brackets", "empty", "other lines", "gzip", "a long line", "zeros"],
)
def test_what_is_no_export_is_said_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, code: ExitCode | None
) -> None:
    path = tmp_path / "export.jsonl"
    path.write_bytes(content)
    ended = main(["ledger", "verify", str(path)])
    assert ended == code if code is not None else ended in {ExitCode.FAILED, ExitCode.LEDGER}
    error = capsys.readouterr().err
    assert error.startswith(f"curator: {path}")
    assert "fault of this program" not in error


def test_an_export_without_end_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "verify", "/dev/zero"]) == ExitCode.FAILED
    assert "/dev/zero: line 1 has more than 4 MiB: give the file that" in capsys.readouterr().err


def test_a_database_that_cannot_be_opened_is_said_with_its_cause(
    weir: CuratorFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    weir.ledger.write_bytes(b"no database at all" * 100)
    assert main(["budget", "--dir", str(weir.root)]) != ExitCode.OK
    error = capsys.readouterr().err
    assert str(weir.root) in error
    assert "not a database" in error
