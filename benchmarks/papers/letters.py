"""Letters drawn from fonts, a stand-in for EMNIST: ten letters, each font face a writer.

The fonts are those that matplotlib brings along, so nothing is downloaded and every machine draws
the same faces; another folder of .ttf files may be given. Tests are of faces that no training
image has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from PIL import ImageFont

from analyst.evaluation.image_file import LabelledImages
from analyst.evolution.fonts import drawn_text

LETTERS = "ABCDEFGHIJ"
_SIDE = 28
_SYMBOLS = ("Siz", "NonUni", "cmex", "cmsy", "cmmi", "Display", "LastResort")  # fonts without A
_TEST_EVERY = 5
_IMAGES = 12_000


def letters(
    num_images: int = _IMAGES, *, fonts: Path | None = None
) -> tuple[LabelledImages, LabelledImages]:
    """Return the training part and a sixth as many test images of other faces.

    Args:
        num_images: Of the training part.
        fonts: Folder of .ttf files instead of matplotlib's.
    """
    faces = font_faces(fonts)
    apart = [face for place, face in enumerate(faces) if place % _TEST_EVERY == 0]
    kept = [face for face in faces if face not in apart]
    train, _ = drawn(kept, num_images, seed=0)
    test, _ = drawn(apart, num_images // 6, seed=1)
    return train, test


def font_faces(folder: Path | None = None) -> list[Path]:
    """Return the fonts that have letters, by name.

    Raises:
        SystemExit: If there are fewer than two.
    """
    place = folder or Path(mpl.get_data_path()) / "fonts" / "ttf"
    faces = [
        path
        for path in sorted(place.glob("*.ttf"))
        if not any(symbol in path.name for symbol in _SYMBOLS)
    ]
    if len(faces) < 2:
        message = f"{place} holds no two fonts: give a folder of .ttf files"
        raise SystemExit(message)
    return faces


def drawn(
    faces: Sequence[Path], num_images: int, *, seed: int
) -> tuple[LabelledImages, np.ndarray]:
    """Return letters in turn of all faces, sizes, slants and places, and the face of each."""
    randomness = np.random.default_rng(seed)
    images = np.empty((num_images, 1, _SIDE, _SIDE), np.uint8)
    labels = np.arange(num_images) % len(LETTERS)
    writers = randomness.integers(len(faces), size=num_images)
    for place, (label, writer) in enumerate(zip(labels, writers, strict=True)):
        images[place, 0] = _letter(LETTERS[label], faces[writer], randomness)
    return LabelledImages(images, labels.astype(np.int64), classes=tuple(LETTERS)), writers


def _letter(letter: str, face: Path, randomness: np.random.Generator) -> np.ndarray:
    font = ImageFont.truetype(str(face), int(randomness.integers(32, 44)))
    across, down = randomness.integers(-4, 5, size=2).tolist()
    return drawn_text(letter, font, (across, down), float(randomness.normal(0, 8)), _SIDE)
