"""A file of what was asked of a run, one entry a step, that loses nothing but a torn last entry."""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, final

from safetensors.torch import load, save

from curator.privacy.batches import Samples

_HEAD: Final = struct.Struct("<QQ32s")  # step, bytes of the samples, their SHA-256


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class JournalEntry:
    """One step and its public samples."""

    step: int
    samples: Samples


@final
class Journal:
    """Appends entries durably; found by name each time, so a folder that was moved takes none."""

    def __init__(self, path: Path) -> None:
        """Take the file."""
        self._path = path

    def start(self) -> None:
        """Make the file empty, durably."""
        with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)) as file:
            os.fsync(file.fileno())

    def append(self, step: int, samples: Samples) -> None:
        """Add an entry; it is on the disk when this returns.

        Raises:
            OSError: If it is not; what was written of it is taken back, as a later entry behind a
                torn one would not be read.
        """
        body = save({"images": samples.images_ND, "labels": samples.labels_N})
        head = _HEAD.pack(step, len(body), hashlib.sha256(body).digest())
        with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_APPEND), "ab", buffering=0) as file:
            before = os.fstat(file.fileno()).st_size
            try:
                _write(file, head + body)
            except OSError:
                file.truncate(before)
                raise

    def read(self) -> list[JournalEntry]:
        """Return all entries in their order, and cut off what a crash left half-written.

        Nothing was answered from a half-written entry.
        """
        entries: list[JournalEntry] = []
        whole = 0
        with self._path.open("rb") as file:
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                step, length, digest = _HEAD.unpack(head)
                body = file.read(length)
                if len(body) < length or hashlib.sha256(body).digest() != digest:
                    break
                tensors = load(body)
                samples = Samples(images_ND=tensors["images"], labels_N=tensors["labels"])
                entries.append(JournalEntry(step=step, samples=samples.copied()))
                whole = file.tell()
        os.truncate(self._path, whole)
        return entries


def _write(file: BinaryIO, data: bytes) -> None:
    """Write all of it, durably.

    Raises:
        OSError: If there is no room for all of it.
    """
    if file.write(data) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fdatasync(file.fileno())
