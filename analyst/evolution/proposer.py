"""What makes candidates: a program of the user's, or characters drawn from fonts.

A proposer is public: it has never seen a private record, and a vote tells it nothing but which of
its images go on.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from torch import Generator, Tensor

from analyst.errors import RecipeError
from analyst.evolution.recipe import FONTS
from analyst.generators.generator import ImageShape

_CORRECT: Final = "Correct the proposer; where a run is open, go on with --resume."


@runtime_checkable
class Proposer(Protocol):
    """Made with the public shape of a data set and the names of its classes."""

    def propose(self, count: int, label: int, randomness: Generator) -> Tensor:
        """Return new images [count, C, H, W] of a class, in [-1, 1].

        Args:
            count: How many.
            label: Of 0 to the number of classes less 1.
            randomness: To draw from, where the program can.
        """
        ...

    def vary(self, images: Tensor, label: int, degree: float, randomness: Generator) -> Tensor:
        """Return an image like each of those given, of the same class.

        Args:
            images: [N, C, H, W] in [-1, 1].
            label: Of all of them.
            degree: From 0, the same images, to 1, as different as `propose` makes them.
            randomness: As above.
        """
        ...


def make_proposer(
    name: str, shape: ImageShape, classes: tuple[str, ...], fonts: Path | None = None
) -> Proposer:
    """Return the proposer that a recipe names.

    Args:
        name: "fonts", or MODULE:CLASS of the user's, called with the shape and the classes; the
            module is looked for in the current folder, too.
        shape: Public facts of the data set.
        classes: The names of its classes.
        fonts: Folder of .ttf and .otf files, in the place of those that are installed.

    Raises:
        RecipeError: If there is no such class, it is no proposer, or it refuses the images.
    """
    if name == FONTS:
        from analyst.evolution.fonts import FontProposer  # Pillow

        return FontProposer(shape, classes, fonts)
    module, colon, attribute = name.partition(":")
    remedy = "Give --propose MODULE:CLASS, of a module that Python finds from here."
    if not colon or not module or not attribute:
        message = f"'{name}' names no proposer"
        raise RecipeError(message, remedy)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        made = getattr(import_module(module), attribute)(shape, classes)
    except Exception as error:  # the user's own code may raise anything
        message = f"the proposer {name} cannot be made: {type(error).__name__}: {error}"
        raise RecipeError(message, remedy) from error
    if not isinstance(made, Proposer):
        message = f"{name} has no methods propose and vary"
        raise RecipeError(message, "See docs/how-to/evolve-candidates.md for what they take.")
    return made


def checked(images: object, count: int, shape: ImageShape, what: str) -> Tensor:
    """Return a proposer's images as they may be sent, on the processor.

    Raises:
        RecipeError: If they are of another number, size or range.
    """
    wanted = (count, shape.channels, shape.height, shape.width)
    if not isinstance(images, Tensor) or tuple(images.shape) != wanted:
        found = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
        message = f"{what} returned {found}, and {wanted} was asked"
        raise RecipeError(message, _CORRECT)
    images = images.detach().to("cpu").float()
    if not bool((images.abs() <= 1).all()):  # false for NaN
        message = f"{what} returned pixels that are not in [-1, 1]"
        raise RecipeError(message, _CORRECT)
    return images
