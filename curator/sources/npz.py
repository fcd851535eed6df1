"""Arrays out of an NPZ file, each measured by its header before it is unpacked."""

from __future__ import annotations

import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self, final

import numpy as np
from numpy.lib import format as npy

from curator.data.errors import SourceError
from curator.sources.bounds import LargerThanMemory, check_size
from curator.system.os_errors import in_words

_HEADS: Final = {
    (1, 0): ("<H", npy.read_array_header_1_0),
    (2, 0): ("<I", npy.read_array_header_2_0),
}
_LONGEST_HEAD: Final = 1 << 16
_DAMAGED: Final = (
    EOFError, KeyError, NotImplementedError, RuntimeError, ValueError, struct.error,
    lzma.LZMAError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@final
class NpzFile:
    """An open NPZ file."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        """Take the opened archive of the file at `path`."""
        self._path = path
        self._archive = archive
        self._members = {name.removesuffix(".npy"): name for name in archive.namelist()}

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """Open a file.

        Yields:
            What reads its arrays.

        Raises:
            SourceError: If it cannot be read, also while it is open.
            LargerThanMemory: If there is not the room for an array.
        """
        try:
            with zipfile.ZipFile(path) as archive:
                yield cls(path, archive)
        except SourceError:
            raise
        except MemoryError:
            raise LargerThanMemory(path) from None
        except FileNotFoundError:
            msg = f"{path}: there is no such file"
            raise SourceError(msg) from None
        except _DAMAGED:
            msg = f"{path}: empty, truncated or not an NPZ file of plain arrays"
            raise SourceError(msg) from None
        except OSError as error:
            raise SourceError(in_words(error, str(path))) from None

    @property
    def names(self) -> set[str]:
        """The arrays in it."""
        return set(self._members)

    def array(self, name: str, most: int) -> np.ndarray:
        """Unpack an array.

        Args:
            name: One of `names`.
            most: Bytes that it may have.

        Raises:
            SourceError: If it has more.
        """
        member = self._members[name]
        check_size(f"{self._path}: '{name}'", self._declared(member), most)
        with self._archive.open(member) as stream:
            array: np.ndarray = npy.read_array(stream, allow_pickle=False)
            return array

    def _declared(self, member: str) -> int:
        """Return the bytes that an array's header declares.

        Raises:
            ValueError: If it is no header of a plain array.
        """
        with self._archive.open(member) as stream:
            length_of, _ = _HEADS[npy.read_magic(stream)]
            (length,) = struct.unpack(length_of, stream.read(struct.calcsize(length_of)))
        if length > _LONGEST_HEAD:
            msg = "a header this long is not of an array of numbers"
            raise ValueError(msg)
        with self._archive.open(member) as stream:
            _, read = _HEADS[npy.read_magic(stream)]
            shape, _, dtype = read(stream)
        return math.prod(shape) * int(dtype.itemsize)
