"""Turn a decoded image into levels of the declared shape, as planned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from curator.data.levels import SHALLOW, Levels
from curator.privacy.batches import LARGEST_LEVEL
from curator.sources.conversion import (
    GREY_CHANNELS,
    Conversion,
    ImageRefused,
    is_deep,
    is_inverted,
    is_rotated,
    plan,
)
from curator.sources.decode_image import OpenedImage

_DEEP_PER_LEVEL = 257  # 65535 / 255
_WHITE = 255
_FILTER = Image.Resampling.LANCZOS


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Converted:
    """Levels of shape (channels, height, width), and what was done to get them."""

    levels: Levels
    done: tuple[str, ...]


def convert(opened: OpenedImage, conversion: Conversion) -> Converted:
    """Convert an image, or refuse it with the options that would take it.

    Returns:
        Its levels, of the declared shape if one is declared.

    Raises:
        ImageRefused: If a conversion would be needed that was not allowed, or a level is above
            that of white.
    """
    done = plan(opened, conversion)
    image = opened.image
    if is_rotated(opened):
        image = ImageOps.exif_transpose(image)
    if is_deep(opened):
        levels = _whole_levels(image, opened, conversion)
        if conversion.is_deep:
            return Converted(levels=_deep_planes(levels, conversion), done=done)
        image = Image.fromarray(levels.astype(np.uint8))
    if opened.has_alpha:
        image = _without_alpha(image, _WHITE if conversion.alpha == "white" else 0)
    mode = _mode(opened, conversion)
    if image.mode != mode:
        image = image.convert(mode)
    if conversion.shape is not None and image.size != conversion.shape[:0:-1]:
        image = _resized(image, conversion)
    pixels = np.asarray(image, dtype=np.uint8)
    planes = pixels[np.newaxis] if mode == "L" else pixels.transpose(2, 0, 1)
    return Converted(levels=np.ascontiguousarray(planes), done=done)


def resized_levels(levels: Levels, conversion: Conversion) -> Levels:
    """Return levels (channels, height, width) of an array in the declared size.

    No level is above or below those of the image, so that what is declared white stays so.
    """
    known = levels if levels.dtype == SHALLOW else levels.astype(np.float32)  # exact: below 2^24
    planes = [np.asarray(_resized(Image.fromarray(plane), conversion)) for plane in known]
    lowest = 0 if conversion.resize == "fit" else levels.min()  # bars are black
    scaled: Levels = np.rint(np.stack(planes).clip(lowest, levels.max())).astype(levels.dtype)
    return scaled


def eight_bits(levels: Levels, white: int) -> npt.NDArray[np.uint8]:
    """Return levels up to 255 of levels (N, channels, height, width) up to another white, rounded.

    Args:
        levels: At most `white`.
        white: Level of white.
    """
    if white == _WHITE:
        return levels.astype(np.uint8, copy=False)
    return np.stack([np.rint(one * (_WHITE / white)).astype(np.uint8) for one in levels])


def _mode(opened: OpenedImage, conversion: Conversion) -> str:
    if conversion.channels is None:
        return "RGB" if opened.mode.startswith("RGB") else "L"
    return "L" if conversion.channels == GREY_CHANNELS else "RGB"


def _whole_levels(
    image: Image.Image, opened: OpenedImage, conversion: Conversion
) -> npt.NDArray[np.float64]:
    """Return the levels (height, width) of a deep image, whole and from 0 to white.

    Raises:
        ImageRefused: If one is negative or above white.

    References:
        DICOM PS3.3, C.11.2.1.2.1 (the linear window).
    """
    values = np.asarray(image).astype(np.float64)
    if conversion.window is not None:
        centre, width = conversion.window
        black = centre - 0.5 - (width - 1) / 2
        scaled = (values - black) * (conversion.white / (width - 1))
        levels: npt.NDArray[np.float64] = np.rint(scaled.clip(0, conversion.white))
        return conversion.white - levels if is_inverted(opened) else levels
    if values.min() < 0:
        msg = "levels below 0: save it with unsigned levels, or add --window CENTRE,WIDTH"
        raise ImageRefused(msg)
    if conversion.sixteen_bit == "scale":
        return np.rint(values / _DEEP_PER_LEVEL)
    white = conversion.max_level or LARGEST_LEVEL
    if values.max() > white:
        msg = (
            f"a level of {values.max():g}, declared is at most {white}: declare another --max-level"
        )
        raise ImageRefused(msg)
    return values


def _deep_planes(levels: npt.NDArray[np.float64], conversion: Conversion) -> Levels:
    """Return deep levels in the declared size and number of channels."""
    planes = levels.astype(conversion.kind)[np.newaxis]
    if conversion.shape is not None and planes.shape[1:] != conversion.shape[1:]:
        planes = resized_levels(planes, conversion)
    return np.repeat(planes, conversion.channels or GREY_CHANNELS, axis=0)


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
