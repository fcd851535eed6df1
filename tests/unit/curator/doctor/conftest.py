"""A curator's folder, and what lies in it byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator.folder import CuratorFolder, initialise


@pytest.fixture
def folder(tmp_path: Path) -> CuratorFolder:
    return initialise(tmp_path / "weir")


def contents(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return mode, time of change and bytes of everything below a folder."""
    found = {}
    for path in sorted(root.rglob("*")):
        state = path.lstat()
        text = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = (state.st_mode, state.st_mtime_ns, text)
    return found
