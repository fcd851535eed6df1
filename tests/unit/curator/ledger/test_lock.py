from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from curator.errors import LedgerUnavailable
from curator.ledger.file_lock import WriterLock
from curator.ledger.problems import LedgerLocked


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path / "lock")
    with pytest.raises(LedgerLocked, match="Stop it first"):
        WriterLock(tmp_path / "lock")
    lock.release()
    lock.release()
    WriterLock(tmp_path / "lock").release()


def test_a_dead_process_holds_nothing(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; from curator.ledger.file_lock import WriterLock; "
        "lock = WriterLock(pathlib.Path(sys.argv[1])); os._exit(7)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "lock")], check=False)
    assert done.returncode == 7
    WriterLock(tmp_path / "lock").release()


def test_a_missing_folder_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable):
        WriterLock(tmp_path / "nowhere" / "lock")
