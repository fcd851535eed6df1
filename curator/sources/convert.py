"""Turn a decoded image into levels of the declared shape, as planned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from curator.sources.conversion import GREY_CHANNELS, Conversion, is_deep, is_rotated, plan
from curator.sources.decode_image import OpenedImage

_DEEP_PER_LEVEL = 257  # 65535 / 255
_WHITE = 255
_FILTER = Image.Resampling.LANCZOS


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Converted:
    """Levels of shape (channels, height, width), and what was done to get them."""

    levels: npt.NDArray[np.uint8]
    done: tuple[str, ...]


def convert(opened: OpenedImage, conversion: Conversion) -> Converted:
    """Convert an image, or refuse it with the options that would take it.

    Returns:
        Its levels, of the declared shape if one is declared.

    Raises:
        ImageRefused: If a conversion would be needed that was not allowed.
    """
    done = plan(opened, conversion)
    image = opened.image
    if is_rotated(opened):
        image = ImageOps.exif_transpose(image)
    if is_deep(opened):
        image = _eight_bits(image)
    if opened.has_alpha:
        image = _without_alpha(image, _WHITE if conversion.alpha == "white" else 0)
    mode = _mode(opened, conversion)
    if image.mode != mode:
        image = image.convert(mode)
    if conversion.shape is not None and image.size != conversion.shape[:0:-1]:
        image = _resized(image, conversion)
    levels = np.asarray(image, dtype=np.uint8)
    planes = levels[np.newaxis] if mode == "L" else levels.transpose(2, 0, 1)
    return Converted(levels=np.ascontiguousarray(planes), done=done)


def resized_levels(levels: npt.NDArray[np.uint8], conversion: Conversion) -> npt.NDArray[np.uint8]:
    """Return levels (channels, height, width) of an array in the declared size.

    No level is above or below those of the image, so that what is declared white stays so.
    """
    planes = [np.asarray(_resized(Image.fromarray(plane), conversion)) for plane in levels]
    lowest = 0 if conversion.resize == "fit" else levels.min()  # bars are black
    scaled: npt.NDArray[np.uint8] = np.stack(planes).clip(lowest, levels.max())
    return scaled


def _mode(opened: OpenedImage, conversion: Conversion) -> str:
    if conversion.channels is None:
        return "RGB" if opened.mode.startswith("RGB") else "L"
    return "L" if conversion.channels == GREY_CHANNELS else "RGB"


def _eight_bits(image: Image.Image) -> Image.Image:
    levels = np.asarray(image).astype(np.float64)
    return Image.fromarray(np.rint(levels / _DEEP_PER_LEVEL).astype(np.uint8))


def _without_alpha(image: Image.Image, level: int) -> Image.Image:
    """Lay an image over a plain background."""
    if image.mode in {"La", "RGBa"}:
        image = image.convert(image.mode.upper())  # straight alpha
    background = Image.new("RGBA", image.size, (level, level, level, _WHITE))
    return Image.alpha_composite(background, image.convert("RGBA")).convert("RGB")


def _resized(image: Image.Image, conversion: Conversion) -> Image.Image:
    """Scale a picture and pad it with black, or scale its middle; both sides alike."""
    shape = conversion.shape or (0, *image.size[::-1])
    height, width = shape[1:]
    across, down = width / image.width, height / image.height
    if conversion.resize == "crop":
        wide, high = width / max(across, down), height / max(across, down)
        left, top = (image.width - wide) / 2, (image.height - high) / 2
        return image.resize((width, height), _FILTER, box=(left, top, left + wide, top + high))
    scale = min(across, down)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    scaled = image.resize(size, _FILTER)
    x, y = (scaled.width - width) // 2, (scaled.height - height) // 2
    return scaled.crop((x, y, x + width, y + height))
