"""Rows of levels on disk instead of in memory, in a file without a name.

The file is unlinked from the start, readable by its owner only, and gone when the process ends,
however it ends. It is mapped, as nobody can cut a file without a name, and only the steward's
command that adds a data set has one: no step ever reads it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from curator.data.levels import SHALLOW, Levels

_CHUNK_BYTES = 1 << 24


def rows_on_disk(
    folder: Path, rows: Iterable[Levels], shape: tuple[int, ...], kind: np.dtype[Any] = SHALLOW
) -> Levels:
    """Write rows to a nameless file and map it.

    Args:
        folder: On the disk that has the room.
        rows: Arrays whose sizes are multiples of a row's.
        shape: Of a row.
        kind: Of a level.

    Returns:
        The rows, read-only: shape (N, *shape).
    """
    with tempfile.TemporaryFile(dir=folder) as stream:
        count = 0
        for row in rows:
            stream.write(row.astype(kind, copy=False).tobytes())
            count += row.size
        stream.flush()
        size = int(np.prod(shape))
        if not count:
            return np.zeros((0, *shape), dtype=kind)
        return np.memmap(stream, dtype=kind, mode="r", shape=(count // size, *shape))


def gathered(levels: Levels, rows: npt.NDArray[np.int64], folder: Path) -> Levels:
    """Bring rows into another order, on disk.

    Args:
        levels: Rows, usually mapped.
        rows: Which, in the new order.
        folder: As for `rows_on_disk`.
    """
    step = _rows_at_once(levels)
    chunks = (levels[rows[start : start + step]] for start in range(0, len(rows), step))
    return rows_on_disk(folder, chunks, levels.shape[1:], levels.dtype)


def in_type(levels: Levels, kind: np.dtype[Any], folder: Path) -> Levels:
    """Return levels as stored ones are, on disk if they are not so already.

    Args:
        levels: Rows, none of them above what the type holds.
        kind: Of a level.
        folder: As for `rows_on_disk`.
    """
    if levels.dtype == kind:
        return levels
    step = _rows_at_once(levels)
    chunks = (levels[start : start + step] for start in range(0, len(levels), step))
    return rows_on_disk(folder, chunks, levels.shape[1:], kind)


def _rows_at_once(levels: Levels) -> int:
    return max(1, _CHUNK_BYTES // max(1, int(np.prod(levels.shape[1:]))))
