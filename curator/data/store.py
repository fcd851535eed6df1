"""The stored form of a data set: arrays and their checksums, readable by the owner only.

A data set with groups has a third array and another version, so that a curator that knows nothing
of groups refuses it rather than protect single records.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shutil
from pathlib import Path
from typing import BinaryIO

import numpy as np

from curator.data.errors import SourceError
from curator.data.images import LabelledImages

_VERSION, _GROUPED_VERSION = 1, 2
_LEVELS, _LABELS, _GROUPS, _MANIFEST = "levels.npy", "labels.npy", "groups.npy", "manifest.json"
_ARRAYS = {_VERSION: (_LEVELS, _LABELS), _GROUPED_VERSION: (_LEVELS, _LABELS, _GROUPS)}
_PARTIAL = ".partial"
_CHUNK = 1 << 20


def write_store(folder: Path, images: LabelledImages) -> None:
    """Write a data set; the folder appears whole or not at all.

    Args:
        folder: Where to; must not exist.
        images: What to keep; groups as `limit_groups` leaves them. Mapped levels stay mapped.

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
        _write_files(partial, images)
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


def open_store(folder: Path) -> LabelledImages:
    """Open a stored data set, memory-mapped, after checking every byte.

    Args:
        folder: Where `write_store` wrote.

    Returns:
        Levels of shape (N, 1, 1, D), labels, and groups if they were stored.

    Raises:
        SourceError: If a file is missing or differs from its checksum.
    """
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        names = _ARRAYS.get(manifest["version"], ())
        intact = bool(names) and all(
            hmac.compare_digest(_sha256(folder / name), manifest[name]) for name in names
        )
        if not intact:
            msg = f"{folder}: the stored images differ from their checksums; restore them"
            raise SourceError(msg)
        levels = np.load(folder / _LEVELS, mmap_mode="r", allow_pickle=False)
        labels = np.load(folder / _LABELS, mmap_mode="r", allow_pickle=False)
        groups = most = None
        if _GROUPS in names:
            groups = np.load(folder / _GROUPS, allow_pickle=False).astype(np.int64)
            most = int(manifest["max_per_group"])
    except (OSError, KeyError, json.JSONDecodeError):
        msg = f"{folder}: the stored images are incomplete; restore them from a backup"
        raise SourceError(msg) from None
    return LabelledImages(
        levels=levels[:, np.newaxis, np.newaxis, :],
        labels=labels,
        groups=groups,
        max_per_group=most,
    )


def content_fingerprint(images: LabelledImages, key: bytes) -> str:
    """Return a keyed digest of the records as a multiset, so that a renamed copy is noticed.

    Groups do not count: another grouping is no other content.

    Args:
        images: The records, in any order.
        key: Known to the steward's side only; without it the digest says nothing.

    Returns:
        Hexadecimal HMAC-SHA256.
    """
    flat = images.levels.reshape(len(images.levels), -1)
    rows = sorted(
        hashlib.sha256(row.tobytes() + int(label).to_bytes(8, "little")).digest()
        for row, label in zip(flat, images.labels, strict=True)
    )
    return hmac.new(key, b"".join(rows), hashlib.sha256).hexdigest()


def _write_files(partial: Path, images: LabelledImages) -> None:
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
        manifest[name] = _sha256(partial / name)
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


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
