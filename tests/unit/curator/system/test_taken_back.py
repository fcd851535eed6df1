"""What a command that fails takes back is what it made, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator.cli import main
from curator.folder import PARTS
from curator.system.taken_back import taken_back_on_failure


def _fail(root: Path) -> None:
    with taken_back_on_failure(root, ("own*",)):
        (root / "own").mkdir(exist_ok=True)
        (root / "own" / "new.txt").write_text("made")
        (root / "own.sqlite").write_text("made")
        (root / "letter.txt").write_text("somebody else's, meanwhile")
        (root / "photos").mkdir()
        msg = "no space"
        raise OSError(msg)


def test_what_others_put_there_meanwhile_stays(tmp_path: Path) -> None:
    root = tmp_path / "weir"
    with pytest.raises(OSError, match="no space"):
        _fail(root)
    assert sorted(path.name for path in root.iterdir()) == ["letter.txt", "photos"]


def test_what_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "old.txt").write_text("mine")
    with pytest.raises(OSError, match="no space"):
        _fail(tmp_path)
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["old.txt"]


def test_the_parts_are_all_that_an_init_makes(tmp_path: Path) -> None:
    assert main(["init", str(tmp_path / "weir"), "--quiet"]) == 0
    made = {path for part in PARTS for path in (tmp_path / "weir").glob(part)}
    assert made == set((tmp_path / "weir").iterdir())
