"""Record what the sanitizer releases inside a mechanism, and replay it in a second run.

Many mechanisms answer with a function of what was released. To compare two runs, the releases
themselves are needed; and to see that nothing but them has an influence, a second run replays those
of the first one: all is computed as ever, and thrown away.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.averaged import FINE_STD
from curator.sanitizer.lattice import LATTICE_STD

_MECHANISMS: Final = "curator.mechanisms."
_NOISE_STD: Final = {
    "release_choices": FINE_STD,
    "release_class_sums": LATTICE_STD,
    "release_clipped": LATTICE_STD,
    "release_critic_mean": FINE_STD,
    "release_example_sum": LATTICE_STD,
    "release_outer_sum": FINE_STD,
    "release_projections": LATTICE_STD,
    "release_votes": FINE_STD,
}
"""What makes a release, and the standard deviation of its noise in lattice spacings."""

Make = Callable[..., Release]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RecordedRelease:
    """One release as the sanitizer made it, by the function of this name."""

    by: str
    release: Release

    @property
    def integers(self) -> list[int]:
        """The noised integers; of projections the sum over slots, whose order is random."""
        blocks = [one.integers for one in self.release.blocks if isinstance(one, LatticeBlock)]
        if self.by == "release_projections":
            blocks = [block.sum(dim=0) for block in blocks]
        return [int(value) for block in blocks for value in block.flatten().tolist()]

    def squared_sensitivity(self, noise_multiplier: float) -> int:
        """Return what the squared distance of two releases must not exceed, in lattice spacings.

        Args:
            noise_multiplier: Noise standard deviation over the sensitivity. A record changes each
                projection of its row by that much at most, and all of them less, on average.
        """
        num_columns = len(self.integers) if self.by == "release_projections" else 1
        numerator, denominator = float(noise_multiplier).as_integer_ratio()
        std, whole = float(_NOISE_STD[self.by]).as_integer_ratio()
        return num_columns * (std * denominator) ** 2 // (whole * numerator) ** 2


@contextmanager
def recorded(replayed: Sequence[RecordedRelease] = ()) -> Iterator[list[RecordedRelease]]:
    """Note every release of every mechanism until the block is left; in one thread at a time.

    Args:
        replayed: What the mechanism gets in place of its own first releases, in turn.

    Yields:
        What was made, in order, whatever was replayed.
    """
    made: list[RecordedRelease] = []
    real = [
        (module, name, vars(module)[name])
        for module in _modules()
        for name in sorted(_NOISE_STD.keys() & vars(module).keys())
    ]
    try:
        for module, name, make in real:
            setattr(module, name, _noting(name, make, made, replayed))
        yield made
    finally:
        for module, name, make in real:
            setattr(module, name, make)


def _modules() -> list[ModuleType]:
    return [module for name, module in sys.modules.items() if name.startswith(_MECHANISMS)]


def _noting(
    name: str, make: Make, made: list[RecordedRelease], replayed: Sequence[RecordedRelease]
) -> Make:
    """Return a function that makes a release, notes it and perhaps returns another."""

    def noting(*arguments: Any, **named: Any) -> Release:
        made.append(RecordedRelease(by=name, release=make(*arguments, **named)))
        number = len(made) - 1
        return replayed[number].release if number < len(replayed) else made[-1].release

    return noting
