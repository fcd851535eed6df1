"""Rows of levels on disk instead of in memory, in a file without a name.

The file is unlinked from the start, readable by its owner only, and gone when the process ends,
however it ends. It is mapped, as nobody can cut a file without a name, and only the steward's
command that adds a data set has one: no step ever reads it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

Levels = npt.NDArray[np.uint8]
_CHUNK_BYTES = 1 << 24


def rows_on_disk(folder: Path, rows: Iterable[Levels], shape: tuple[int, ...]) -> Levels:
    """Write rows to a nameless file and map it.

    Args:
        folder: On the disk that has the room.
        rows: Arrays whose sizes are multiples of a row's.
        shape: Of a row.

    Returns:
        The rows, read-only: shape (N, *shape).
    """
    with tempfile.TemporaryFile(dir=folder) as stream:
        count = 0
        for row in rows:
            stream.write(row.tobytes())
            count += row.size
        stream.flush()
        size = int(np.prod(shape))
        if not count:
            return np.zeros((0, *shape), dtype=np.uint8)
        return np.memmap(stream, dtype=np.uint8, mode="r", shape=(count // size, *shape))


def gathered(levels: Levels, rows: npt.NDArray[np.int64], folder: Path) -> Levels:
    """Bring rows into another order, on disk.

    Args:
        levels: Rows, usually mapped.
        rows: Which, in the new order.
        folder: As for `rows_on_disk`.
    """
    step = max(1, _CHUNK_BYTES // max(1, int(np.prod(levels.shape[1:]))))
    chunks = (levels[rows[start : start + step]] for start in range(0, len(rows), step))
    return rows_on_disk(folder, chunks, levels.shape[1:])
