"""Canaries: images that nobody knows, some of them in a data set, for a later look at what leaked.

Candidates are drawn before the data set is stored, and a fair coin puts each one in or leaves it
out. Whoever sees synthetic images and can tell the two kinds apart has learned of single records.
As the coins are independent of all else, what is proved by guessing them is proved of the data set
whose budget was registered: see `audit.one_run_bound`.

A canary is a picture of black and white blocks, at most eight on a side, with a random label. Two
of them differ in about half of their blocks, and no photograph looks like one. In a data set with
groups each is a group of its own.

Shape legend: K candidates.
"""

from __future__ import annotations

import io
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from curator.data.images import LabelledImages
from curator.data.levels import Levels, level_type
from curator.data.scratch import rows_on_disk
from curator.data.store import read_other
from curator.privacy.batches import ImageSpace

CANARIES_FILE: Final = "canaries.npz"
_LEAST: Final = 10
_MOST: Final = 10_000
_BLOCKS: Final = 8  # on a side, and bits of a byte
_CHUNK_BYTES: Final = 1 << 24


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Canaries:
    """Candidates, and which of them are in.

    `levels` is (K, channels, height, width), `labels` and `is_in` are (K).
    """

    levels: Levels
    labels: npt.NDArray[np.int64]
    is_in: npt.NDArray[np.bool_]


def check_count(count: int) -> None:
    """Refuse too few candidates to tell anything, and too many to be outliers.

    Raises:
        ValueError: If there would be fewer than 10 or more than 10,000.
    """
    if not _LEAST <= count <= _MOST:
        msg = f"canaries must be from {_LEAST} to {_MOST:,}"
        raise ValueError(msg)


def draw_canaries(space: ImageSpace, count: int) -> Canaries:
    """Draw candidates and toss their coins, by the operating system's randomness.

    Args:
        space: Of the data set's images.
        count: K.

    Raises:
        ValueError: If there would be fewer than 10 or more than 10,000.
    """
    check_count(count)
    rows, columns = (min(_BLOCKS, size) for size in (space.height, space.width))
    blocks = _bits(count * space.channels * rows * columns)
    blocks = blocks.reshape(count, space.channels, rows, columns)
    row_of, column_of = (
        np.arange(size) * number // size
        for size, number in ((space.height, rows), (space.width, columns))
    )
    light = blocks[:, :, row_of][:, :, :, column_of]
    return Canaries(
        levels=light * level_type(space.max_level).type(space.max_level),
        labels=np.array([secrets.randbelow(space.num_classes) for _ in range(count)], np.int64),
        is_in=_bits(count),
    )


def with_canaries(images: LabelledImages, canaries: Canaries, scratch: Path) -> LabelledImages:
    """Return images with those candidates behind them that are in.

    Args:
        images: Of the source; mapped ones stay on disk.
        canaries: Of the same shape.
        scratch: A folder with room for all.
    """
    levels, labels = canaries.levels[canaries.is_in], canaries.labels[canaries.is_in]
    kind = np.promote_types(images.levels.dtype, levels.dtype)
    step = max(1, _CHUNK_BYTES // max(1, int(np.prod(images.levels.shape[1:]))))
    chunks = [images.levels[start : start + step] for start in range(0, len(images.levels), step)]
    groups = images.groups
    if groups is not None:
        groups = np.concatenate([groups, groups.max() + 1 + np.arange(len(labels))])
    return replace(
        images,
        levels=rows_on_disk(scratch, [*chunks, levels], images.levels.shape[1:], kind),
        labels=np.concatenate([images.labels, labels]),
        groups=groups,
    )


def packed(canaries: Canaries) -> bytes:
    """Return the form in which all candidates are kept beside the stored images."""
    stream = io.BytesIO()
    np.savez(stream, levels=canaries.levels, labels=canaries.labels, is_in=canaries.is_in)
    return stream.getvalue()


def read_canaries(folder: Path) -> Canaries | None:
    """Return the candidates of a stored data set, None if it has none.

    Args:
        folder: Of the stored data set; those that are in stand behind all other images.

    Raises:
        SourceError: If they are not whole.
    """
    content = read_other(folder, CANARIES_FILE)
    if content is None:
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return Canaries(**{name: archive[name] for name in ("levels", "labels", "is_in")})


def num_planted(folder: Path) -> int:
    """Return how many of the stored images are canaries; they are the last ones.

    Raises:
        SourceError: If the canaries are not whole.
    """
    canaries = read_canaries(folder)
    return 0 if canaries is None else int(canaries.is_in.sum())


def _bits(count: int) -> npt.NDArray[np.bool_]:
    """Return fair coins."""
    tossed = np.frombuffer(secrets.token_bytes(-(-count // _BLOCKS)), dtype=np.uint8)
    return np.unpackbits(tossed, count=count).astype(np.bool_)
