"""Rows of a stored file, read by calls that can fail, and never mapped into memory.

Touching a page of a mapped file that was cut meanwhile, or that the disk cannot give, ends the
process with SIGBUS: a crash that depends on which record was sampled. A read returns an error.
"""

from __future__ import annotations

import logging
import os
import weakref
from io import BufferedReader
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt

from curator.data.levels import DEEP, SHALLOW, Levels

Indices = npt.NDArray[np.int64]

_logger = logging.getLogger(__name__)


@final
class StoredRows:
    """The rows of one array on the disk; the file stays open, also when its name is gone."""

    def __init__(self, path: Path) -> None:
        """Open a file that `numpy.save` wrote.

        Args:
            path: Of levels in rows.

        Raises:
            ValueError: If the file is no such array, or has another length than it says.
        """
        self._path = path
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        with self.stream() as stream:
            if np.lib.format.read_magic(stream) != (1, 0):
                msg = "the file has another format"
                raise ValueError(msg)
            shape, is_by_column, dtype = np.lib.format.read_array_header_1_0(stream)
            self._start = stream.tell()
        is_known = dtype in {SHALLOW, DEEP}
        if len(shape) != 2 or not is_known or (is_by_column and 1 not in shape):
            msg = "the file does not hold rows of levels"
            raise ValueError(msg)
        self.shape: tuple[int, int] = shape
        self.dtype = dtype
        self._row_bytes = shape[1] * dtype.itemsize
        self._size = self._start + shape[0] * self._row_bytes
        self._is_whole = _has_length(self._file, self._size)
        if not self._is_whole:
            msg = "the file has not the length that it says"
            raise ValueError(msg)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.shape[0]

    def __getitem__(self, rows: Indices | slice) -> Levels:
        """Copy rows: one read of equal length for each, whichever they are, or one for a slice.

        Returns:
            A row for each, in memory of its own.

        Raises:
            OSError: If one cannot be read, or not all of it.
        """
        if isinstance(rows, slice):
            first, last, _ = rows.indices(len(self))
            return self._read([first], last - first)
        return self._read(rows.tolist(), 1)

    def _read(self, firsts: list[int], count: int) -> Levels:
        """Read as many rows from each of some on.

        Raises:
            OSError: If one cannot be read, or not all of it.
        """
        file, start, width = self._file, self._start, self._row_bytes
        length = count * width
        parts = [os.pread(file, length, start + first * width) for first in firsts]
        if any(len(part) != length for part in parts):
            msg = "a row is not there"
            raise OSError(msg)
        levels: Levels = np.frombuffer(bytearray().join(parts), dtype=self.dtype)
        return levels.reshape(len(firsts) * count, self.shape[1])

    def stream(self) -> BufferedReader:
        """Return all bytes of the file from the first on, of the same open file."""
        os.lseek(self._file, 0, os.SEEK_SET)
        return os.fdopen(os.dup(self._file), "rb")

    def is_whole(self) -> bool:
        """Return whether the file had its length all the time, whichever rows were read.

        What was put back after a cut is not believed: only opening the file anew checks it.
        """
        if self._is_whole and not _has_length(self._file, self._size):
            self._is_whole = False
            _logger.error(
                "data set %s is out of service: its stored images were cut or changed in length; "
                "restore the folder %s from a backup, then start the curator again",
                self._path.parent.name,
                self._path.parent,
            )
        return self._is_whole


def _has_length(file: int, size: int) -> bool:
    try:
        return os.fstat(file).st_size == size
    except OSError:
        return False
