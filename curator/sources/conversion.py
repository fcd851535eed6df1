"""What a steward allows to be done to image files; without a word from the steward, nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from curator.sources.decode_image import OpenedImage


Shape = tuple[int, int, int]

GREY_CHANNELS, RGB_CHANNELS = 1, 3


class ImageRefused(ValueError):
    """A file is not taken; the text says what is wrong and how it would be taken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversion:
    """The options of reading image files, as typed in.

    `shape` is (channels, height, width); without it, sizes and channels are not compared.
    """

    shape: Shape | None = None
    colour: Literal["none", "grey", "rgb"] = "none"
    resize: Literal["none", "fit", "crop"] = "none"
    alpha: Literal["refuse", "white", "black"] = "refuse"
    exif: Literal["refuse", "rotate"] = "refuse"
    sixteen_bit: Literal["refuse", "scale"] = "refuse"
    frames: Literal["refuse", "first"] = "refuse"

    def __post_init__(self) -> None:
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
    def channels(self) -> int | None:
        """Channels of the result, if they are known."""
        if self.colour == "none":
            return None if self.shape is None else self.shape[0]
        return GREY_CHANNELS if self.colour == "grey" else RGB_CHANNELS


_BYTE_BITS, _DEEP_BITS = 8, 16
_ROTATIONS = range(2, 9)
_COLOURS = {
    **dict.fromkeys(("L", "LA", "La", "I;16", "I;16B", "I;16L", "I;16N", "I"), "grey"),
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
    """Return whether a channel has more than eight bits."""
    return opened.depth > _BYTE_BITS or opened.mode.startswith(("I", "F"))


def _steps(opened: OpenedImage, conversion: Conversion) -> Iterator[Step]:
    if opened.has_frames:
        why = "several frames or pages: add --frames first, or save the one you mean"
        yield "the first of several frames", why if conversion.frames == "refuse" else ""
    if is_rotated(opened):
        why = f"EXIF orientation {opened.orientation}: add --exif rotate, or save it upright"
        yield "rotated as EXIF says", why if conversion.exif == "refuse" else ""
    if is_deep(opened):
        yield _depth_step(opened, conversion)
    if opened.has_alpha:
        why = "transparent: add --alpha white or --alpha black, the colour behind it"
        yield f"laid over {conversion.alpha}", why if conversion.alpha == "refuse" else ""
    yield from _colour_step(opened, conversion)
    yield from _size_step(opened, conversion)


def _depth_step(opened: OpenedImage, conversion: Conversion) -> Step:
    is_grey = _COLOURS.get(opened.mode) == "grey"
    if not is_grey or opened.has_alpha or opened.depth != _DEEP_BITS:
        return "", f"{opened.depth} bits a channel, mode {opened.mode}: save it with 8 bits"
    why = "16-bit grey: add --sixteen-bit scale (65535 becomes 255), or save it with 8 bits"
    return "16 bits scaled to 8", why if conversion.sixteen_bit == "refuse" else ""


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
