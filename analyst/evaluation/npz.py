"""Arrays out of an NPZ file, each measured by its header before it is unpacked.

A small file may unpack to more than a machine has; nothing is unpickled either.
"""

from __future__ import annotations

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from numpy.lib import format as npy

from analyst.documents import DocumentProblem

MOST_BYTES: Final = 1 << 32  # of one array: 350,000 colour images of 64 x 64
_HEADS: Final = {
    (1, 0): ("<H", npy.read_array_header_1_0),
    (2, 0): ("<I", npy.read_array_header_2_0),
}
_LONGEST_HEAD: Final = 1 << 16

DAMAGED: Final = (
    EOFError, KeyError, NotImplementedError, OverflowError, RuntimeError, SyntaxError, TypeError,
    ValueError, struct.error, tokenize.TokenError, lzma.LZMAError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What a file that is none, or was cut or changed, makes of reading it."""


@final
class NpzFile:
    """An open NPZ file."""

    def __init__(self, path: Path) -> None:
        """Open the file at `path`; close it with `with`."""
        self._archive = zipfile.ZipFile(path)
        self._members = {name.removesuffix(".npy"): name for name in self._archive.namelist()}

    def __enter__(self) -> NpzFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def array(self, name: str) -> np.ndarray:
        """Unpack an array.

        Raises:
            DocumentProblem: If it is not there, or has too many bytes.
        """
        self.declared(name)
        with self._archive.open(self._members[name]) as stream:
            array: np.ndarray = npy.read_array(stream, allow_pickle=False)
            return array

    def declared(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return the shape and the type that an array's header declares; nothing is unpacked.

        Raises:
            DocumentProblem: If it is not there, has too many bytes, or is no plain array.
        """
        if name not in self._members:
            msg = f"it has no array '{name}'"
            raise DocumentProblem(msg)
        member = self._members[name]
        with self._archive.open(member) as stream:
            length_of, _ = _HEADS[npy.read_magic(stream)]
            (length,) = struct.unpack(length_of, stream.read(struct.calcsize(length_of)))
        if length > _LONGEST_HEAD:
            msg = "a header this long is not of an array of numbers"
            raise DocumentProblem(msg)
        with self._archive.open(member) as stream:
            _, read = _HEADS[npy.read_magic(stream)]
            shape, _, dtype = read(stream)
        if any(size < 0 for size in shape):
            msg = f"'{name}' has no shape that an array has"
            raise DocumentProblem(msg)
        if dtype.hasobject:
            msg = f"'{name}' holds objects, which are never read"
            raise DocumentProblem(msg)
        size = math.prod(shape) * max(1, int(dtype.itemsize))
        if size > MOST_BYTES:
            msg = f"'{name}' would unpack to {size / 2**30:.1f} GiB, and at most 4 are read"
            raise DocumentProblem(msg)
        return shape, dtype
