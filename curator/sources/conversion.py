"""What a steward allows to be done to image files; without a word from the steward, nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from curator.data.levels import DEEP, level_type

if TYPE_CHECKING:
    from curator.sources.decode_image import OpenedImage


Shape = tuple[int, int, int]

GREY_CHANNELS, RGB_CHANNELS = 1, 3


class ImageRefused(ValueError):
    """A file is not taken; the text says what is wrong and how it would be taken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversion:
    """The options of reading image files, as typed in.

    `shape` is (channels, height, width) and `max_level` the level of white; without them, sizes,
    channels and levels are not compared. `window` is the centre and the width of the values that
    become black to white.
    """

    shape: Shape | None = None
    colour: Literal["none", "grey", "rgb"] = "none"
    resize: Literal["none", "fit", "crop"] = "none"
    alpha: Literal["refuse", "white", "black"] = "refuse"
    exif: Literal["refuse", "rotate"] = "refuse"
    sixteen_bit: Literal["refuse", "scale", "keep"] = "refuse"
    max_level: int | None = None
    window: tuple[float, float] | None = None
    monochrome1: Literal["refuse", "invert"] = "refuse"
    frames: Literal["refuse", "first"] = "refuse"

    def __post_init__(self) -> None:
        if self.window is not None and not (all(map(isfinite, self.window)) and self.window[1] > 1):
            msg = "--window needs a centre and a width above 1, such as 40,400"
            raise ValueError(msg)
        if self.sixteen_bit == "scale" and self.white > _BYTE_WHITE:
            msg = (
                "--sixteen-bit scale makes 8 bits: with --max-level above 255 give "
                "--sixteen-bit keep, or --window CENTRE,WIDTH"
            )
            raise ValueError(msg)
        if self.shape is None:
            if self.resize != "none":
                msg = f"--resize {self.resize} needs --image-shape"
                raise ValueError(msg)
            return
        if self.shape[0] not in {GREY_CHANNELS, RGB_CHANNELS}:
            msg = f"image files have 1 channel (grey) or 3 (rgb), --image-shape has {self.shape[0]}"
            if self.shape[-1] in {GREY_CHANNELS, RGB_CHANNELS}:
                *size, channels = self.shape
                msg += f": channels come first: {channels}x{'x'.join(map(str, size))}"
            raise ValueError(msg)
        if self.colour != "none" and self.channels != self.shape[0]:
            msg = (
                f"--convert {self.colour} gives {self.channels} channels, "
                f"--image-shape has {self.shape[0]}"
            )
            raise ValueError(msg)

    @property
    def white(self) -> int:
        """Level of white."""
        return self.max_level or _BYTE_WHITE

    @property
    def is_deep(self) -> bool:
        """Whether levels go beyond those of a byte."""
        return self.sixteen_bit == "keep" or self.white > _BYTE_WHITE

    @property
    def kind(self) -> np.dtype[Any]:
        """The type of the levels that files are turned into."""
        return DEEP if self.is_deep else level_type(self.white)

    @property
    def channels(self) -> int | None:
        """Channels of the result, if they are known."""
        if self.colour == "none":
            return None if self.shape is None else self.shape[0]
        return GREY_CHANNELS if self.colour == "grey" else RGB_CHANNELS


_BYTE_WHITE = 255
_BYTE_BITS, _DEEP_BITS = 8, 16
_INVERTED, _UPRIGHT = "MONOCHROME1", "MONOCHROME2"
_ROTATIONS = range(2, 9)
_COLOURS = {
    **dict.fromkeys(("L", "LA", "La", "I;16", "I;16B", "I;16L", "I;16N", "I"), "grey"),
    **dict.fromkeys((_INVERTED, _UPRIGHT), "grey"),
    **dict.fromkeys(("P", "PA"), "palette"),
    **dict.fromkeys(("RGB", "RGBA", "RGBa"), "rgb"),
    "1": "1-bit",
    "CMYK": "cmyk",
}
_TARGETS = {GREY_CHANNELS: "grey", RGB_CHANNELS: "rgb", None: None}

Step = tuple[str, str]  # what would be done, and why the file is refused without it or ""


def plan(opened: OpenedImage, conversion: Conversion) -> tuple[str, ...]:
    """Return the conversions that a file goes through.

    Returns:
        What will be done, in words, in order; nothing for a file that fits as it is.

    Raises:
        ImageRefused: With everything that is wrong with the file, and the options that take it.
    """
    steps = list(_steps(opened, conversion))
    refusals = [why for _, why in steps if why]
    if refusals:
        raise ImageRefused("; ".join(refusals))
    return tuple(done for done, _ in steps)


def is_rotated(opened: OpenedImage) -> bool:
    """Return whether EXIF says that the picture is not upright."""
    return opened.orientation in _ROTATIONS


def is_deep(opened: OpenedImage) -> bool:
    """Return whether a channel has more than eight bits, or has values that a window needs."""
    return opened.depth > _BYTE_BITS or opened.mode.startswith(("I", "F")) or is_scan(opened)


def is_scan(opened: OpenedImage) -> bool:
    """Return whether levels are values of an instrument, as DICOM's are."""
    return opened.mode in {_INVERTED, _UPRIGHT}


def is_inverted(opened: OpenedImage) -> bool:
    """Return whether the least value of a scan is white."""
    return opened.mode == _INVERTED


def _steps(opened: OpenedImage, conversion: Conversion) -> Iterator[Step]:
    if opened.has_frames:
        why = "several frames or pages: add --frames first, or save the one you mean"
        yield "the first of several frames", why if conversion.frames == "refuse" else ""
    if is_rotated(opened):
        why = f"EXIF orientation {opened.orientation}: add --exif rotate, or save it upright"
        yield "rotated as EXIF says", why if conversion.exif == "refuse" else ""
    if is_scan(opened):
        yield from _scan_steps(opened, conversion)
    elif is_deep(opened):
        yield from _depth_step(opened, conversion)
    elif conversion.is_deep:
        yield "", f"{_BYTE_BITS} bits, where levels of 16 are declared: save it with 16 bits"
    if opened.has_alpha:
        why = "transparent: add --alpha white or --alpha black, the colour behind it"
        yield f"laid over {conversion.alpha}", why if conversion.alpha == "refuse" else ""
    yield from _colour_step(opened, conversion)
    yield from _size_step(opened, conversion)


def _scan_steps(opened: OpenedImage, conversion: Conversion) -> Iterator[Step]:
    why = "DICOM: add --window CENTRE,WIDTH, public numbers that are the same for all images"
    yield _windowed(conversion), why if conversion.window is None else ""
    if not opened.has_slope:
        yield "slope 1 and intercept 0 assumed, as the header has none", ""
    if is_inverted(opened):
        why = "its least value is white (MONOCHROME1): add --monochrome1 invert"
        done = "inverted, so that the least value is white"
        yield done, why if conversion.monochrome1 == "refuse" else ""


def _windowed(conversion: Conversion) -> str:
    centre, width = conversion.window or (0, 0)
    return f"windowed to {centre:g},{width:g} and levels up to {conversion.white}"


def _depth_step(opened: OpenedImage, conversion: Conversion) -> Iterator[Step]:
    is_grey = _COLOURS.get(opened.mode) == "grey"
    if not is_grey or opened.has_alpha or opened.depth != _DEEP_BITS:
        yield "", f"{opened.depth} bits a channel, mode {opened.mode}: save it with 8 bits"
    elif conversion.window is not None:
        yield _windowed(conversion), ""
    elif conversion.sixteen_bit == "refuse":
        scale = "--sixteen-bit scale (65535 becomes 255), or "
        why = (
            f"16-bit grey: add {'' if conversion.white > _BYTE_WHITE else scale}"
            "--sixteen-bit keep or --window CENTRE,WIDTH with --max-level, or save it with 8 bits"
        )
        yield "", why
    elif conversion.sixteen_bit == "scale":
        yield "16 bits scaled to 8", ""


def _colour_step(opened: OpenedImage, conversion: Conversion) -> Iterator[Step]:
    name = _COLOURS.get(opened.mode)
    if name is None:
        yield "", f"colours in mode {opened.mode}: save it as RGB or grey, with 8 bits"
        return
    if name == "grey" and opened.depth < _BYTE_BITS:
        name = f"{opened.depth}-bit grey"
    target = _TARGETS[conversion.channels]
    if name == target or (target is None and name in {"grey", "rgb"}):
        return
    if conversion.colour != "none":
        yield f"{name} to {target}", ""
    elif target is None:
        yield "", f"{name}: add --convert grey or --convert rgb"
    else:
        yield "", f"{name}, declared is {target}: add --convert {target}"


def _size_step(opened: OpenedImage, conversion: Conversion) -> Iterator[Step]:
    if conversion.shape is None:
        return
    width, height = opened.size
    if (height, width) == conversion.shape[1:]:
        return
    why = (
        f"height {height} and width {width}, declared are {conversion.shape[1]} and "
        f"{conversion.shape[2]}: add --resize fit (the whole picture, black bars) or "
        "--resize crop (its middle)"
    )
    grows = height < conversion.shape[1] or width < conversion.shape[2]
    done = f"resized ({conversion.resize}{', enlarged' if grows else ''})"
    yield done, why if conversion.resize == "none" else ""
