"""How long a synced write takes where the ledger and its head lie, and how much room is left.

The measurement writes to a file without a name, so the folder has no file more or less, ever.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from curator.doctor.finding import Finding, attention, fault, well
from curator.doctor.subject import Subject

_REPEATS: Final = 9
_BLOCK: Final = bytes(4096)
_SLOW_SECONDS: Final = 0.05
_FREE_BYTES: Final = 1 << 30
_UNSUPPORTED: Final = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}
_MOUNTS: Final = Path("/proc/self/mountinfo")
_FORGETFUL: Final = {"tmpfs", "ramfs", "overlay"}
_REMOTE: Final = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "glusterfs", "ceph")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """One folder in which the curator syncs."""

    path: Path
    seconds: float | None  # None where the file system has no files without a name
    file_system: str
    free_bytes: int

    @property
    def words(self) -> str:
        """What is known of it."""
        took = "not measured: no unnamed files here"
        if self.seconds is not None:
            took = f"{1000 * self.seconds:.2f} ms a synced write"
        return (
            f"{self.path}: {took}, {self.file_system}, {self.free_bytes / (1 << 30):.1f} GiB free"
        )


def disk(subject: Subject) -> Finding:
    """Measure where the ledger's file and the file of its head are."""
    try:
        places = [_measure(path) for path in _places(subject)]
    except OSError as problem:
        return fault(
            f"{problem.filename}: {problem.strerror}",
            "make the folder, and let the user that serves write to it",
        )
    words = "; ".join(place.words for place in places)
    facts = [
        {
            "path": str(place.path),
            "fsync_seconds": place.seconds,
            "file_system": place.file_system,
            "free_bytes": place.free_bytes,
        }
        for place in places
    ]
    next_step = next(filter(None, map(_next_step, places)), "")
    return attention(words, next_step, places=facts) if next_step else well(words, places=facts)


def _places(subject: Subject) -> list[Path]:
    """Return the folders of the ledger, if it is a file, and of its head."""
    if subject.folder is None:
        return []
    places = [subject.folder.head_file(subject.config).parent]
    if not subject.config.database:
        places.insert(0, subject.folder.ledger.parent)
    return list(dict.fromkeys(places))


def _next_step(place: _Place) -> str:
    if place.file_system in _FORGETFUL:
        return "put it on a disk or a volume: this is forgotten with the machine or the container"
    if place.file_system.startswith(_REMOTE):
        return "put the ledger on a local disk, or in PostgreSQL: network file systems may lie"
    if place.free_bytes < _FREE_BYTES:
        return "make room: a full disk stops every run, though it loses none"
    if place.seconds is not None and place.seconds > _SLOW_SECONDS:
        return "take a faster disk: each block of steps, run and decision waits for such a write"
    return ""


def _measure(path: Path) -> _Place:
    return _Place(
        path=path,
        seconds=_fsync_seconds(path),
        file_system=_file_system(path),
        free_bytes=shutil.disk_usage(path).free,
    )


def _fsync_seconds(path: Path) -> float | None:
    """Return the median time of a synced write of a page.

    Raises:
        OSError: If the folder is not there, or may not be written to.
    """
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        unnamed = os.open(path, os.O_TMPFILE | os.O_WRONLY, 0o600)
    except OSError as problem:
        if problem.errno not in _UNSUPPORTED:
            raise
        return None
    times = []
    try:
        for _ in range(_REPEATS):
            started = time.perf_counter()
            os.write(unnamed, _BLOCK)
            os.fsync(unnamed)
            times.append(time.perf_counter() - started)
    finally:
        os.close(unnamed)
    return statistics.median(times)


def _file_system(path: Path) -> str:
    """Return the kind of the file system that holds a folder."""
    try:
        mounts = _MOUNTS.read_text().splitlines()
    except OSError:
        return "unknown"
    where, best, kind = path.resolve(), -1, "unknown"
    for line in mounts:
        words = line.split()
        point = Path(re.sub(r"\\(\d{3})", lambda one: chr(int(one[1], 8)), words[4]))
        if (point == where or point in where.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), words[words.index("-") + 1]
    return kind
