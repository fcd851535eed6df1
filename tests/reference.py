"""Golden values that were computed independently and lie outside the repository."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("WEIR_REFERENCE", ROOT.parent / "shared" / "reference"))


@cache
def _all_rows() -> list[dict[str, Any]]:
    path = FOLDER / "golden_accounting.json"
    if not path.exists():
        pytest.skip(f"no golden values at {FOLDER}: set WEIR_REFERENCE to run this test")
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    return rows


def golden_rows(method: str) -> list[dict[str, Any]]:
    """Return the rows of one method."""
    return [row for row in _all_rows() if row["method"] == method]
