"""Programs that propose candidates: blots of ink, and some that are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from analyst.generators.generator import ImageShape

NAME = "tests.fakes.proposer:Blots"


class Blots:
    """Images of one grey each; a variation is a little darker or lighter."""

    def __init__(self, shape: ImageShape, classes: Sequence[str]) -> None:
        self.size = (shape.channels, shape.height, shape.width)
        self.num_classes = len(classes)
        self.degrees: list[float] = []

    def propose(self, count: int, label: int, randomness: Generator) -> Tensor:
        del label
        grey = torch.rand((count, 1, 1, 1), generator=randomness) * 2 - 1
        return grey.expand(count, *self.size).clone()

    def vary(self, images: Tensor, label: int, degree: float, randomness: Generator) -> Tensor:
        del label
        self.degrees.append(degree)
        moved = torch.rand((len(images), 1, 1, 1), generator=randomness) * 2 - 1
        return (images + degree * moved).clamp(-1, 1)


class Nothing:
    def __init__(self, *_: Any) -> None:
        pass


class Wrong(Blots):
    def propose(self, count: int, label: int, randomness: Generator) -> Tensor:
        return super().propose(count + 1, label, randomness)
