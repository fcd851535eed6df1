"""Keyed hashes of images, by which a copy is known again after the images themselves are gone.

A hash looks at one image's levels and at nothing else: neither at its label, nor at its group, nor
at its place. Without the key, which the steward's side holds, it says nothing.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

import numpy as np
import numpy.typing as npt

from curator.data.images import LabelledImages
from curator.data.stored_rows import Levels, StoredRows

Hashes = npt.NDArray[np.uint64]
"""Of the distinct images of a data set, ascending."""

_HASH_BYTES: Final = 8  # two of 10^7 images share one with probability below 3e-6
_SEAL_BYTES: Final = 32
_BLOCK_BYTES: Final = 1 << 20
_STORED: Final = np.dtype("<u8")


def image_hashes(levels: Levels | StoredRows, key: bytes) -> Hashes:
    """Hash every image, some at a time.

    Args:
        levels: One image a row, of any shape.
        key: Known to the steward's side only; at most 64 bytes.

    Returns:
        The hashes, 8 bytes an image.
    """
    hashes = np.empty(len(levels), dtype=np.uint64)
    step = max(1, _BLOCK_BYTES // max(1, int(np.prod(levels.shape[1:]))))
    for start in range(0, len(levels), step):
        for place, image in enumerate(levels[start : start + step], start):
            digest = hashlib.blake2b(image.tobytes(), digest_size=_HASH_BYTES, key=key).digest()
            hashes[place] = int.from_bytes(digest, "little")
    return np.unique(hashes)


def seal_hashes(hashes: Hashes, key: bytes) -> bytes:
    """Return the form in which hashes are kept."""
    content = hashes.astype(_STORED).tobytes()
    return _seal(content, key) + content


def open_hashes(sealed: bytes, key: bytes) -> Hashes | None:
    """Return hashes that were kept, None if they are not whole or of another key.

    Args:
        sealed: As `seal_hashes` returned it.
        key: As they should be made with.
    """
    seal, content = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal(content, key)):
        return None
    return np.frombuffer(content, dtype=_STORED).astype(np.uint64)


def labelled_fingerprint(images: LabelledImages, key: bytes) -> str:
    """Return the keyed digest that earlier versions kept: of images with labels, in any order.

    Returns:
        Hexadecimal HMAC-SHA256.
    """
    flat = images.levels.reshape(len(images.levels), -1)
    rows = sorted(
        hashlib.sha256(row.tobytes() + int(label).to_bytes(8, "little")).digest()
        for row, label in zip(flat, images.labels, strict=True)
    )
    return hmac.new(key, b"".join(rows), hashlib.sha256).hexdigest()


def _seal(content: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(
        content, digest_size=_SEAL_BYTES, key=key, person=b"image hashes"
    ).digest()
