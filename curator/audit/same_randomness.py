"""Run a mechanism on both data sets of a pair with the same random words, and compare.

Then nothing but the extra record can make a difference. As many words and draws are taken; the
sequence of tensor operations and shapes is the same where it is promised; and the noise cancels in
the difference of the released integers, whose norm is compared with the declared sensitivity
exactly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from curator.audit.canaries import Pair
from curator.audit.direction import records_of
from curator.audit.failing import Records
from curator.audit.target import Target
from curator.mechanisms.mechanism import ReleasedOnceMechanism, SampledMechanism
from curator.privacy.noise import NoiseSource
from curator.privacy.release import LatticeBlock
from curator.sanitizer.gaussian import Words, discrete_gaussian
from curator.sanitizer.lattice import lattice_radius

Operation = tuple[str, tuple[tuple[int, ...], ...]]

_WORD_BYTES = 8
_BATCH_ROWS = 512


@final
class Tape:
    """Random words by stream, drawn from the operating system once and kept for a second run."""

    def __init__(self) -> None:
        """Start with an empty tape."""
        self._streams: dict[str, Words] = {}

    def words(self, stream: str, start: int, stop: int) -> Words:
        """Return part of a stream.

        Args:
            stream: Its name.
            start: First word.
            stop: End.
        """
        known = self._streams.get(stream, np.empty(0, dtype=np.uint64))
        if len(known) < stop:
            fresh = np.frombuffer(os.urandom((stop - len(known)) * _WORD_BYTES), dtype=np.uint64)
            known = self._streams[stream] = np.concatenate((known, fresh))
        return known[start:stop].copy()


@final
class TapedNoise:
    """Plays a tape from its beginning through the production sampler, and counts."""

    def __init__(self, tape: Tape) -> None:
        """Begin at the start of each stream."""
        self._tape = tape
        self.taken: dict[str, int] = {}
        self.draws: list[int] = []

    def discrete_gaussian(self, num_values: int) -> Tensor:
        """Return int64 draws of the production sampler."""
        self.draws.append(num_values)
        values = discrete_gaussian(
            num_values,
            lambda count: self._take("gaussian", count),
            lambda count: self._take("refinement", count),
        )
        return torch.from_numpy(values)

    def uniform_words(self, num_words: int) -> Tensor:
        """Return int64 values whose 64 bits are uniform."""
        return torch.from_numpy(self._take("uniform", num_words).view(np.int64))

    def _take(self, stream: str, count: int) -> Words:
        start = self.taken.get(stream, 0)
        self.taken[stream] = start + count
        return self._tape.words(stream, start, start + count)


@final
class OperationLog(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down each tensor operation with the shapes of its arguments."""

    def __init__(self) -> None:
        """Start with an empty log."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Note an operation and let it happen."""
        del types
        shapes = tuple(tuple(one.shape) for one in args if isinstance(one, Tensor))
        self.operations.append((str(func), shapes))
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Trace:
    """What one run did, and the lattice integers that it released."""

    integers: list[int]
    taken: dict[str, int]
    draws: list[int]
    operations: list[Operation]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What two runs with the same words have in common; None where it is not promised."""

    mechanism: str
    canary: str
    same_draws: bool
    same_words: bool | None
    same_operations: bool | None
    squared_difference: int  # in lattice spacings, exact
    squared_sensitivity: int

    @property
    def holds(self) -> bool:
        """Whether everything promised is so."""
        promised = (self.same_draws, self.same_words, self.same_operations)
        return False not in promised and self.squared_difference <= self.squared_sensitivity


def compare(
    target: Target, pair: Pair, *, plant: Callable[[Records], Records] = lambda records: records
) -> Comparison:
    """Run a mechanism on D and on D' with the same words.

    A record that fails ends a computation early, and a mechanism that releases once reads the
    whole data set, whose size decides its shapes: there operations are not promised to be equal.
    DP-SWD answers with a function of its release, so no lattice is compared.

    Args:
        target: The mechanism.
        pair: The canary.
        plant: For tests: wraps the records of D', to plant a fault.

    Returns:
        The comparison.
    """
    tape = Tape()
    fewer, more = (records_of(pair, with_extra=with_extra) for with_extra in (False, True))
    without = _trace(target, pair, fewer, TapedNoise(tape))
    extra = _trace(target, pair, plant(more), TapedNoise(tape))
    fixed = target.pays_per_step and not pair.fails
    difference = [a - b for a, b in zip(extra.integers, without.integers, strict=True)]
    radii = 2 if target.pays_per_step else 1
    multiplier = target.open().spec.noise_multiplier
    radius = lattice_radius(multiplier, sensitivity_in_radii=radii)
    return Comparison(
        mechanism=target.name,
        canary=pair.canary,
        same_draws=without.draws == extra.draws,
        same_words=None if pair.fails else without.taken == extra.taken,
        same_operations=without.operations == extra.operations if fixed else None,
        squared_difference=sum(one * one for one in difference),
        squared_sensitivity=(radii * radius) ** 2,
    )


def _trace(target: Target, pair: Pair, records: Records, noise: TapedNoise) -> _Trace:
    mechanism = target.open()
    with OperationLog() as log:
        if isinstance(mechanism, SampledMechanism):
            source: NoiseSource = noise
            batch = records.poisson_batch(mechanism.sampling_rate, mechanism.capacity, source)
            release = mechanism.gradient(pair.samples, batch, source)
        else:
            once = cast("ReleasedOnceMechanism", mechanism)
            release = once.setup(records.batches(_BATCH_ROWS), noise)
    lattice = [block.integers for block in release.blocks if isinstance(block, LatticeBlock)]
    return _Trace(
        integers=[int(one) for block in lattice for one in block.reshape(-1).tolist()],
        taken=noise.taken,
        draws=noise.draws,
        operations=log.operations,
    )
