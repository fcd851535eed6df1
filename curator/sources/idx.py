"""IDX files, the format of MNIST: a magic word, big-endian sizes, then bytes; plain or gzipped."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curator.data.errors import SourceError
from curator.sources.bounds import LargerThanMemory, check_size
from curator.system.os_errors import in_words

_UNSIGNED_BYTE = 0x08
_MAX_BYTES = 1 << 36
_CHUNK = 1 << 20


def read_idx(path: Path, most: int = _MAX_BYTES) -> npt.NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes, and no more of it than its header declares.

    Args:
        path: The file; a name ending in .gz is decompressed.
        most: Bytes that its header may declare.

    Returns:
        The array with the shape that the header declares.

    Raises:
        SourceError: If the file is missing, empty, truncated, too long, or not IDX.
        LargerThanMemory: If there is not the room for it.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return _parse(path, stream, most)
    except FileNotFoundError:
        msg = f"{path}: there is no such file"
        raise SourceError(msg) from None
    except MemoryError:
        raise LargerThanMemory(path) from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        msg = f"{path}: a damaged gzip file: replace it with an intact copy"
        raise SourceError(msg) from None
    except OSError as error:
        raise SourceError(in_words(error, str(path))) from None


def _parse(path: Path, stream: io.BufferedIOBase, most: int) -> npt.NDArray[np.uint8]:
    """Read the header, then as much as it declares.

    Raises:
        SourceError: If it declares too much, or they do not fit.
    """
    magic = stream.read(4)
    if not magic:
        msg = f"{path}: the file is empty"
        raise SourceError(msg)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] != _UNSIGNED_BYTE or magic[3] == 0:
        msg = f"{path}: not an IDX file of unsigned bytes (wrong magic number)"
        raise SourceError(msg)
    sizes = stream.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        msg = f"{path}: the header is truncated"
        raise SourceError(msg)
    shape = struct.unpack(f">{magic[3]}I", sizes)
    declared = math.prod(shape)
    check_size(str(path), declared, most)
    data = bytearray()
    while len(data) <= declared and (part := stream.read(min(_CHUNK, declared + 1 - len(data)))):
        data += part
    if len(data) != declared:
        holds = "more" if len(data) > declared else f"{len(data)}"
        msg = f"{path}: the header declares {declared} bytes, the file holds {holds}"
        raise SourceError(msg)
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)
