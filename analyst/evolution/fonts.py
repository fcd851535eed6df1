"""Characters drawn from fonts, and their variation by warps, strokes and other fonts.

Each class is drawn as its name is written, so this is for digits, letters and signs.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, final

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont, ImageOps
from torch import Generator, Tensor
from torch.nn.functional import interpolate

from analyst.errors import RecipeError
from analyst.evaluation.augment import stroked, warped
from analyst.generators.generator import ImageShape

PLACES: Final = (
    Path("/usr/share/fonts"),
    Path("/usr/local/share/fonts"),
    Path("/Library/Fonts"),
    Path("~/.local/share/fonts"),
    Path("~/.fonts"),
)
"""Where fonts are installed."""

_REMEDY: Final = (
    "Install some (on Debian: apt-get install fonts-dejavu fonts-liberation fonts-freefont-ttf), "
    "or give --fonts FOLDER with .ttf or .otf files."
)
_KINDS: Final = (".ttf", ".otf")
_LEAST_FACES: Final = 2
_LONGEST_NAME: Final = 3
_OUTLINE: Final = 16
_NOTHING: Final = np.zeros((1, _OUTLINE, _OUTLINE))
_LEAST_LIKENESS: Final = 0.3
_FLAT: Final = 1e-3
_FINER: Final = 2  # characters are drawn at twice the size, then shrunk
_UNKNOWN: Final = "\uffff"  # no font has it: its shape stands for what is missing
_REDRAWN: Final = 0.25  # of the images at degree 1: another font, and all else anew
_FIRST_WARP: Final = 0.7  # degree of what is proposed: as it is written in most fonts
_MOST_BEND: Final = 0.12  # of elastic warps


def drawn_text(
    text: str,
    font: ImageFont.FreeTypeFont,
    shift: tuple[int, int],
    angle: float,
    side: int,
    stroke: int = 0,
) -> np.ndarray:
    """Return a text in white on black as bytes [side, side], drawn at twice the size.

    Args:
        text: A character or a few.
        font: With its size, for twice the side.
        shift: From the middle, at twice the size.
        angle: In degrees, to the left.
        side: Of the image.
        stroke: By how much lines are thicker, at twice the size.
    """
    canvas = Image.new("L", (_FINER * side, _FINER * side))
    middle = (_FINER * side / 2 + shift[0], _FINER * side / 2 + shift[1])
    ImageDraw.Draw(canvas).text(middle, text, fill=255, font=font, anchor="mm", stroke_width=stroke)
    turned = canvas.rotate(angle, resample=Image.Resampling.BILINEAR)
    return np.asarray(ImageOps.fit(turned, (side, side)))


def font_faces(folders: Sequence[Path], texts: Iterable[str]) -> list[Path]:
    """Return the fonts below some folders that can draw all texts, by name.

    Fonts of signs have others in the places of digits and letters: what is unlike the mean of all
    fonts is left out.

    Raises:
        RecipeError: If there are fewer than two.
    """
    found = {
        path
        for folder in folders
        for path in folder.expanduser().rglob("*")
        if path.suffix.lower() in _KINDS
    }
    wanted = sorted({*"".join(texts)})
    outlines = {path: _outlines(path, wanted) for path in sorted(found)}
    usual = np.mean([one for one in outlines.values() if one is not None] or [_NOTHING], axis=0)
    faces = [
        path
        for path, one in outlines.items()
        if one is not None and _alike(one, usual) > _LEAST_LIKENESS
    ]
    if len(faces) < _LEAST_FACES:
        places = ", ".join(map(str, folders))
        message = f"no two fonts that have the characters {' '.join(wanted)} are in {places}"
        raise RecipeError(message, _REMEDY)
    return faces


def _outlines(path: Path, characters: Sequence[str]) -> np.ndarray | None:
    """Return the ink of each character, all of one size; nothing where a font lacks one."""
    try:
        font = ImageFont.truetype(str(path), 64)
        missing = bytes(font.getmask(_UNKNOWN))
        found = []
        for one in characters:
            if bytes(font.getmask(one)) == missing:
                return None
            left, top, right, bottom = font.getbbox(one)
            canvas = Image.new("L", (int(right - left), int(bottom - top)))
            ImageDraw.Draw(canvas).text((-left, -top), one, fill=255, font=font)
            found.append(np.asarray(canvas.resize((_OUTLINE, _OUTLINE)), dtype=np.float64))
    except (OSError, ValueError):  # no font, or no ink
        return None
    return np.stack(found) / 255


def _alike(outlines: np.ndarray, usual: np.ndarray) -> float:
    """Return the mean correlation of the characters of a font with the usual ones.

    A full block, as of a dash, has none: it is as like as it has the same ink.
    """
    found = []
    for one, mean in zip(outlines, usual, strict=True):
        spread = float(one.std() * mean.std())
        product = float(((one - one.mean()) * (mean - mean.mean())).mean())
        flat = 1 - float(np.abs(one - mean).mean())
        found.append(product / spread if spread > _FLAT else flat)
    return float(np.mean(found))


@final
class FontProposer:
    """Draws each class as its name is written, in every font there is."""

    def __init__(
        self, shape: ImageShape, classes: Sequence[str], folder: Path | None = None
    ) -> None:
        """Find the fonts.

        Args:
            shape: Of the images; grey, or the same in all channels.
            classes: Their names.
            folder: Of the fonts, in the place of those that are installed.

        Raises:
            RecipeError: If a name is no character or two, or there are no fonts.
        """
        long = [name for name in classes if not 1 <= len(name.strip()) <= _LONGEST_NAME]
        if long:
            message = f"fonts draw characters, and the class '{long[0]}' is not one"
            remedy = "Give a model of your own: --propose MODULE:CLASS."
            raise RecipeError(message, remedy)
        self._shape, self._texts = shape, tuple(name.strip() for name in classes)
        self._side = max(shape.height, shape.width)
        self._faces = font_faces(PLACES if folder is None else (folder,), self._texts)

    def propose(self, count: int, label: int, randomness: Generator) -> Tensor:
        """See `Proposer`: any font, size, place, slant, width of stroke and warp."""
        levels = np.stack([self._drawn(self._texts[label], randomness) for _ in range(count)])
        images_N1HW = torch.from_numpy(levels).unsqueeze(1).float().div_(127.5).sub_(1)
        size = (self._shape.height, self._shape.width)
        if images_N1HW.shape[2:] != size:
            images_N1HW = interpolate(images_N1HW, size, mode="bilinear", antialias=True)
        images_NCHW = images_N1HW.clamp(-1, 1).repeat(1, self._shape.channels, 1, 1)
        return _bent(images_NCHW, _FIRST_WARP, randomness)

    def vary(self, images: Tensor, label: int, degree: float, randomness: Generator) -> Tensor:
        """See `Proposer`: an affine and an elastic warp, a stroke; some are drawn anew."""
        varied = _bent(stroked(images, degree, randomness), degree, randomness)
        anew = torch.rand(len(images), generator=randomness) < _REDRAWN * degree
        if bool(anew.any()):
            varied[anew] = self.propose(int(anew.sum()), label, randomness)
        return varied

    def _drawn(self, text: str, randomness: Generator) -> np.ndarray:
        """Return one character [H, W], its ink as large as a size that was drawn."""
        face, tall, thick = torch.rand(3, generator=randomness).tolist()
        path = self._faces[int(face * len(self._faces))]
        wanted = (0.5 + 0.45 * tall) * _FINER * self._side  # of the ink's longer side
        font = _font(path, 64)
        left, top, right, bottom = font.getbbox(text)
        size = max(4, round(64 * wanted / max(right - left, bottom - top, 1)))
        stroke = int(thick * 0.06 * _FINER * self._side)
        font = _font(path, size)
        left, top, right, bottom = font.getbbox(text, anchor="mm")
        shift = (-round((left + right) / 2), -round((top + bottom) / 2))  # the ink in the middle
        return drawn_text(text, font, shift, 0.0, self._side, stroke)


@lru_cache(maxsize=4096)
def _font(path: Path, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(path), size)


def _bent(images_NCHW: Tensor, degree: float, randomness: Generator) -> Tensor:
    return warped(images_NCHW, degree, randomness, most_bend=_MOST_BEND)
