"""What a steward allows to be done to image files; without a word from the steward, nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
