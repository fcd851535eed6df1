"""How many images a new data set shares with those that have a budget already.

A hash looks at one image's levels and at nothing else: neither at its label, nor at its group, nor
at its place. Without the key, which the steward's side holds, it says nothing.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from curator.data.errors import SourceError
from curator.data.images import LabelledImages
from curator.data.levels import Levels, level_bytes
from curator.data.stored_rows import StoredRows

Hashes = npt.NDArray[np.uint64]
"""Of the distinct images of a data set, ascending."""

_HASH_BYTES: Final = 8  # two of 10^7 images share one with probability below 3e-6
_SEAL_BYTES: Final = 32
_BLOCK_BYTES: Final = 1 << 20
_STORED: Final = np.dtype("<u8")


def image_hashes(levels: Levels | StoredRows, key: bytes, count: int | None = None) -> Hashes:
    """Hash every image, some at a time.

    Args:
        levels: One image a row, of any shape.
        key: Known to the steward's side only; at most 64 bytes.
        count: Of these only the first so many; all if None.

    Returns:
        The hashes, 8 bytes an image.
    """
    count = len(levels) if count is None else count
    hashes = np.empty(count, dtype=np.uint64)
    step = max(1, _BLOCK_BYTES // max(1, int(np.prod(levels.shape[1:]))))
    for start in range(0, count, step):
        for place, image in enumerate(levels[start : min(start + step, count)], start):
            content = level_bytes(image)
            digest = hashlib.blake2b(content, digest_size=_HASH_BYTES, key=key).digest()
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
        hashlib.sha256(level_bytes(row) + int(label).to_bytes(8, "little")).digest()
        for row, label in zip(flat, images.labels, strict=True)
    )
    return hmac.new(key, b"".join(rows), hashlib.sha256).hexdigest()


def _seal(content: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(
        content, digest_size=_SEAL_BYTES, key=key, person=b"image hashes"
    ).digest()


MOST_SHARED: Final = 0.5
"""The part of the smaller set that may be shared, unless the steward says otherwise."""

_WHY = "a second budget for them would double what is released about the same people"


class SameImages(SourceError):
    """A whole copy, for which there is no option."""

    def __init__(self, name: str) -> None:
        """Say of which registered set."""
        super().__init__(
            f"the same images are registered as '{name}': {_WHY}; if no run was ever opened on "
            f"'{name}', erase it first, and they may be added again"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """Distinct images that two sets share; private."""

    name: str  # of the set that is registered
    shared: int
    smaller: int  # distinct images of the smaller set

    @property
    def line(self) -> str:
        """What the steward is told."""
        return f"{self.shared} of {self.smaller} images are also in '{self.name}'"


def check_overlap(
    new: Hashes, known: Iterable[tuple[str, Hashes]], most_shared: float
) -> tuple[Overlap, ...]:
    """Compare a new set with every registered one, and with all of them together.

    Args:
        new: Of the set to be added.
        known: Of each registered set, by name.
        most_shared: The part of the smaller set, or of the new one, that may be shared.

    Raises:
        SameImages: If a set has the very same images, whatever may be shared.
        SourceError: If more is shared.
    """
    overlaps, is_known = [], np.zeros(len(new), dtype=bool)
    for name, hashes in known:
        found = _is_in(new, hashes)
        is_known |= found
        shared, smaller = int(found.sum()), min(len(new), len(hashes))
        if shared == len(new) == len(hashes):
            raise SameImages(name)
        if shared:
            overlaps.append(Overlap(name=name, shared=shared, smaller=smaller))
            _check_share(overlaps[-1].line, shared, smaller, most_shared)
    words = f"{is_known.sum()} of {len(new)} images are also in registered data sets"
    _check_share(words, int(is_known.sum()), len(new), most_shared)
    return tuple(overlaps)


def _check_share(words: str, shared: int, of: int, most_shared: float) -> None:
    """Check one share.

    Raises:
        SourceError: If it is too large.
    """
    if shared > most_shared * of:
        msg = (
            f"{words}, more than --max-shared {most_shared:g} allows: {_WHY}; leave them out, or "
            "allow a larger share if they tell nothing of anybody, such as blank images"
        )
        raise SourceError(msg)


def _is_in(some: Hashes, others: Hashes) -> np.ndarray:
    """Return for each hash whether it is among ascending others."""
    if not len(others):
        return np.zeros(len(some), dtype=bool)
    places = np.minimum(np.searchsorted(others, some), len(others) - 1)
    found: np.ndarray = others[places] == some
    return found
