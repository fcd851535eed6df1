"""The stored form of a data set: arrays and their checksums, readable by the owner only.

A data set with groups has a third array and another version, so that a curator that knows nothing
of groups refuses it rather than protect single records.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from curator.data.errors import SourceError
from curator.data.images import LabelledImages
from curator.data.stored_rows import StoredRows

_VERSION, _GROUPED_VERSION = 1, 2
_LEVELS, _LABELS, _GROUPS, _MANIFEST = "levels.npy", "labels.npy", "groups.npy", "manifest.json"
_ARRAYS = {_VERSION: (_LEVELS, _LABELS), _GROUPED_VERSION: (_LEVELS, _LABELS, _GROUPS)}
_OTHERS = "others"
_PARTIAL = ".partial"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StoredImages:
    """A stored data set: levels of shape (N, D) stay on the disk, all else is in memory.

    `labels`, `groups` and `max_per_group` are as in `LabelledImages`.
    """

    levels: StoredRows
    labels: npt.NDArray[np.integer]
    groups: npt.NDArray[np.int64] | None = None
    max_per_group: int | None = None


def write_store(
    folder: Path, images: LabelledImages, others: Mapping[str, bytes] | None = None
) -> None:
    """Write a data set; the folder appears whole or not at all.

    Args:
        folder: Where to; must not exist.
        images: What to keep; groups as `limit_groups` leaves them. Mapped levels stay mapped.
        others: Files by name that are kept beside them, and that no step reads.

    Raises:
        SourceError: If the folder exists.
    """
    if folder.exists():
        msg = f"{folder}: exists already; a stored data set is never overwritten"
        raise SourceError(msg)
    partial = folder.with_name(f".{folder.name}{_PARTIAL}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, mode=0o700)
    try:
        _write_files(partial, images, others or {})
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def sweep_partial(folder: Path) -> None:
    """Remove what killed commands left behind.

    Args:
        folder: Where the data sets are; nobody may be writing one.
    """
    for path in folder.glob(f".*{_PARTIAL}"):
        shutil.rmtree(path, ignore_errors=True)


def open_store(folder: Path) -> StoredImages:
    """Open a stored data set, after checking every byte.

    Args:
        folder: Where `write_store` wrote.

    Returns:
        The images, and groups if they were stored.

    Raises:
        SourceError: If a file is missing or differs from its checksum.
    """
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        names = _ARRAYS.get(manifest["version"], ())
        levels = StoredRows(folder / _LEVELS)
        others = {name: (folder / name).read_bytes() for name in names if name != _LEVELS}
        found = {name: hashlib.sha256(content).hexdigest() for name, content in others.items()}
        with levels.stream() as stream:
            found[_LEVELS] = _sha256(stream)
        is_intact = bool(names) and all(found[name] == manifest[name] for name in names)
        most = int(manifest["max_per_group"]) if _GROUPS in names else None
    except (OSError, KeyError, ValueError):
        msg = f"{folder}: the stored images are incomplete; restore them from a backup"
        raise SourceError(msg) from None
    if not is_intact:
        msg = f"{folder}: the stored images differ from their checksums; restore them"
        raise SourceError(msg)
    labels = _array(others[_LABELS])
    return StoredImages(
        levels=levels,
        labels=labels.astype(np.min_scalar_type(labels.max(initial=0))),
        groups=_array(others[_GROUPS]).astype(np.int64) if _GROUPS in others else None,
        max_per_group=most,
    )


def is_stored(folder: Path) -> bool:
    """Return whether all files of a stored data set are there; whether they are whole is not seen.

    Args:
        folder: Where `write_store` wrote.
    """
    try:
        version = json.loads((folder / _MANIFEST).read_bytes())["version"]
    except (OSError, KeyError, TypeError, ValueError):
        return False
    return all((folder / name).is_file() for name in _ARRAYS.get(version, ()))


def read_other(folder: Path, name: str) -> bytes | None:
    """Return a file that was kept beside the images, None if there was none.

    Args:
        folder: Where `write_store` wrote.
        name: Of the file.

    Raises:
        SourceError: If it is missing or differs from its checksum.
    """
    try:
        digest = json.loads((folder / _MANIFEST).read_bytes()).get(_OTHERS, {}).get(name)
        if digest is None:
            return None
        content = (folder / name).read_bytes()
    except (OSError, AttributeError, ValueError):
        msg = f"{folder}: {name} cannot be read; restore the folder from a backup"
        raise SourceError(msg) from None
    if hashlib.sha256(content).hexdigest() != digest:
        msg = f"{folder}: {name} differs from its checksum; restore the folder from a backup"
        raise SourceError(msg)
    return content


def _write_files(partial: Path, images: LabelledImages, others: Mapping[str, bytes]) -> None:
    """Write the arrays, then the manifest with their checksums."""
    arrays: dict[str, np.ndarray] = {
        _LEVELS: images.levels.reshape(len(images.levels), -1),
        _LABELS: images.labels,
    }
    manifest: dict[str, object] = {"version": _VERSION}
    if images.groups is not None:
        largest = np.min_scalar_type(int(images.groups.max(initial=0)))
        arrays[_GROUPS] = images.groups.astype(largest)
        manifest = {"version": _GROUPED_VERSION, "max_per_group": images.max_per_group}
    for name, array in arrays.items():
        _write_durably(partial / name, array)
        with (partial / name).open("rb") as stream:
            manifest[name] = _sha256(stream)
    if others:  # earlier versions read neither the files nor this key
        manifest[_OTHERS] = {
            name: hashlib.sha256(content).hexdigest() for name, content in others.items()
        }
    for name, content in others.items():
        with _open_private(partial / name) as stream:
            stream.write(content)
            os.fsync(stream.fileno())
    with _open_private(partial / _MANIFEST) as stream:
        stream.write(json.dumps(manifest, sort_keys=True).encode())
        os.fsync(stream.fileno())


def _write_durably(path: Path, array: np.ndarray) -> None:
    with _open_private(path) as stream:
        np.save(stream, array, allow_pickle=False)  # a mapped array goes from disk to disk
        stream.flush()
        os.fsync(stream.fileno())


def _open_private(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _sha256(stream: io.BufferedReader) -> str:
    return hashlib.file_digest(stream, "sha256").hexdigest()


def _array(content: bytes) -> npt.NDArray[np.integer]:
    array: npt.NDArray[np.integer] = np.load(io.BytesIO(content), allow_pickle=False)
    return array
