"""Metrics as JSON lines: append only, one object a line, whole after any crash.

Everything in it is public: releases, the ledger's numbers and wall time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import final

from analyst.os_errors import naming

_CHUNK = 1 << 16
Value = float | int | str | bool | None


@final
class MetricsFile:
    """One file of JSON lines."""

    def __init__(self, path: Path) -> None:
        """Open `path` for appending; half a line that a killed process left is cut off."""
        path.parent.mkdir(parents=True, exist_ok=True)
        _cut_partial_line(path)
        self._path = path
        self._file = path.open("a", encoding="utf-8")

    def write(self, kind: str, values: Mapping[str, Value]) -> None:
        """Append one line, flushed to the operating system.

        Args:
            kind: "update" or the name of an event.
            values: Plain values; numbers must be finite.
        """
        line = json.dumps({"kind": kind, **values}, allow_nan=False)
        with naming(self._path):
            self._file.write(line + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _cut_partial_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _CHUNK)
            file.seek(start)
            if (found := file.read(end - start).rfind(b"\n")) >= 0:
                end = start + found + 1
                break
            end = start
        file.truncate(end)
