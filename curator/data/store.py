"""The stored form of a data set: two arrays and their checksums, readable by the owner only."""

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

_VERSION = 1
_LEVELS, _LABELS, _MANIFEST = "levels.npy", "labels.npy", "manifest.json"
_CHUNK = 1 << 22


def write_store(folder: Path, images: LabelledImages) -> None:
    """Write a data set; the folder appears whole or not at all.

    Args:
        folder: Where to; must not exist.
        images: What to keep.

    Raises:
        SourceError: If the folder exists.
    """
    if folder.exists():
        msg = f"{folder}: exists already; a stored data set is never overwritten"
        raise SourceError(msg)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, mode=0o700)
    flat = images.levels.reshape(len(images.levels), -1)
    for name, array in ((_LEVELS, flat), (_LABELS, images.labels)):
        _write_durably(partial / name, array)
    manifest = {"version": _VERSION} | {
        name: _sha256(partial / name) for name in (_LEVELS, _LABELS)
    }
    with _open_private(partial / _MANIFEST) as stream:
        stream.write(json.dumps(manifest, sort_keys=True).encode())
        os.fsync(stream.fileno())
    partial.rename(folder)


def open_store(folder: Path) -> LabelledImages:
    """Open a stored data set, memory-mapped, after checking every byte.

    Args:
        folder: Where `write_store` wrote.

    Returns:
        Levels of shape (N, 1, 1, D) and labels.

    Raises:
        SourceError: If a file is missing or differs from its checksum.
    """
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        intact = manifest.get("version") == _VERSION and all(
            hmac.compare_digest(_sha256(folder / name), manifest[name])
            for name in (_LEVELS, _LABELS)
        )
        if not intact:
            msg = f"{folder}: the stored images differ from their checksums; restore them"
            raise SourceError(msg)
        levels = np.load(folder / _LEVELS, mmap_mode="r", allow_pickle=False)
        labels = np.load(folder / _LABELS, allow_pickle=False)
    except (OSError, KeyError, json.JSONDecodeError):
        msg = f"{folder}: the stored images are incomplete; restore them from a backup"
        raise SourceError(msg) from None
    return LabelledImages(levels=levels[:, np.newaxis, np.newaxis, :], labels=labels)


def content_fingerprint(images: LabelledImages, key: bytes) -> str:
    """Return a keyed digest of the records as a multiset, so that a renamed copy is noticed.

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


def _write_durably(path: Path, array: np.ndarray) -> None:
    with _open_private(path) as stream:
        np.save(stream, array, allow_pickle=False)
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
