"""IDX files, the format of MNIST: a magic word, big-endian sizes, then bytes; plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curator.data.errors import SourceError

_UNSIGNED_BYTE = 0x08
_MAX_BYTES = 1 << 36


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes.

    Args:
        path: The file; a name ending in .gz is decompressed.

    Returns:
        The array with the shape that the header declares.

    Raises:
        SourceError: If the file is missing, empty, truncated, too long, or not IDX.
    """
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as stream:
                data = stream.read()
        else:
            data = path.read_bytes()
    except FileNotFoundError:
        msg = f"{path}: there is no such file"
        raise SourceError(msg) from None
    except (OSError, EOFError, zlib.error):
        msg = f"{path}: cannot be read, or is a damaged gzip file"
        raise SourceError(msg) from None
    return _parse(path, data)


def _parse(path: Path, data: bytes) -> npt.NDArray[np.uint8]:
    """Check the header against the length.

    Raises:
        SourceError: If they do not fit.
    """
    if not data:
        msg = f"{path}: the file is empty"
        raise SourceError(msg)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _UNSIGNED_BYTE or data[3] == 0:
        msg = f"{path}: not an IDX file of unsigned bytes (wrong magic number)"
        raise SourceError(msg)
    start = 4 + 4 * data[3]
    if len(data) < start:
        msg = f"{path}: the header is truncated"
        raise SourceError(msg)
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    declared = math.prod(shape)
    if declared > _MAX_BYTES or len(data) - start != declared:
        msg = f"{path}: the header declares {declared} bytes, the file holds {len(data) - start}"
        raise SourceError(msg)
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)
