"""Run a mechanism on both data sets of a pair with the same random words, and compare.

Then nothing but the extra record can make a difference. As many words and draws are taken; the
sequence of tensor operations and shapes is the same where it is promised; and the noise cancels in
the difference of the released integers, whose norm is compared with the declared sensitivity
exactly. The second run replays the releases of the first: so its answers must be the same, bit for
bit, and what it remembers may differ in one network alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from audit.canaries import Pair
from audit.canary_records import Records, records_of
from audit.noise import OtherSelections, Tape, TapedNoise
from audit.recorded import RecordedRelease, recorded
from audit.target import Target
from audit.trial import Trial, run_in_process
from curator.mechanisms.base import Kind, ServedMechanism, StatefulMechanism
from curator.mechanisms.dp_merf_ae import DpMerfAe
from curator.privacy.release import LatticeBlock, Release

State = Mapping[str, Tensor]
Operation = tuple[str, tuple[tuple[int, ...], ...]]


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
    """What one run did, made, answered and remembers."""

    trial: Trial
    made: list[RecordedRelease]
    noise: TapedNoise
    operations: list[Operation]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What two runs with the same words have in common; None where it is not promised.

    `same_state` is of a third run, on the first data set with other selections; `one_part` says
    whether the states of neighbours differ in one network at most.
    """

    mechanism: str
    canary: str
    same_draws: bool
    same_words: bool | None
    same_operations: bool | None
    same_answers: bool | None
    same_state: bool | None
    one_part: bool | None
    squared_difference: int  # in lattice spacings, exact; of the worst release
    squared_sensitivity: int

    @property
    def holds(self) -> bool:
        """Whether everything promised is so."""
        promised = (
            self.same_draws,
            self.same_words,
            self.same_operations,
            self.same_answers,
            self.same_state,
            self.one_part,
        )
        return False not in promised and self.squared_difference <= self.squared_sensitivity


def compare(
    target: Target, pair: Pair, *, plant: Callable[[Records], Records] = lambda records: records
) -> Comparison:
    """Run a mechanism on D and on D' with the same words.

    A record that fails ends a computation early and draws its own coin, and a mechanism that
    releases once reads the whole data set, whose size decides its shapes: there not all is promised
    to be equal.

    Args:
        target: The mechanism.
        pair: The canary.
        plant: For tests: wraps the records of D', to plant a fault.
    """
    tape, mechanism = Tape(), target.open()
    fewer, more = (records_of(pair, with_extra=with_extra) for with_extra in (False, True))
    without = _trace(target, pair, fewer, TapedNoise(tape))
    extra = _trace(target, pair, plant(more), TapedNoise(tape), replayed=without.made)
    difference, sensitivity = distance(mechanism, without.made, extra.made)
    parts = changed_parts(without.trial.state, extra.trial.state, target.num_parts)
    fixed = mechanism.kind is not Kind.RELEASED_ONCE and not pair.fails
    return Comparison(
        mechanism=target.name,
        canary=pair.canary,
        same_draws=without.noise.draws == extra.noise.draws,
        same_words=None if pair.fails else without.noise.taken == extra.noise.taken,
        same_operations=without.operations == extra.operations if fixed else None,
        same_answers=None if pair.fails else _same(without.trial.answers, extra.trial.answers),
        same_state=state_ignores_selections(target, pair, tape),
        one_part=one_at_most(parts, target) if without.trial.state else None,
        squared_difference=difference,
        squared_sensitivity=sensitivity,
    )


def _noise_multiplier(mechanism: ServedMechanism, made: RecordedRelease) -> float:
    """Return that of one release; the sums that train what is released once have their own."""
    if isinstance(mechanism, DpMerfAe) and made.by == "release_example_sum":
        return mechanism.spec.training_noise_multiplier
    return mechanism.noise_multiplier


def _trace(
    target: Target,
    pair: Pair,
    records: Records,
    noise: TapedNoise,
    replayed: Sequence[RecordedRelease] = (),
) -> _Trace:
    log = OperationLog()
    with recorded(replayed) as made:
        trial = run_in_process(target, pair, records, noise, log)
    return _Trace(trial=trial, made=made, noise=noise, operations=log.operations)


def distance(
    mechanism: ServedMechanism,
    made: Sequence[RecordedRelease],
    others: Sequence[RecordedRelease],
) -> tuple[int, int]:
    """Return how far the releases of two runs with the same words are apart.

    Args:
        mechanism: That made them.
        made: Of one run, in order.
        others: Of the other run.

    Returns:
        The squared distance of the worst release and its square bound, in lattice spacings.
    """
    moved = [
        (
            sum((a - b) ** 2 for a, b in zip(one.integers, other.integers, strict=True)),
            one.squared_sensitivity(_noise_multiplier(mechanism, one)),
        )
        for one, other in zip(made, others, strict=True)
    ]
    return max(moved, key=lambda both: Fraction(*both), default=(0, 1))


def one_at_most(parts: set[int | str], target: Target) -> bool:
    """Return whether no more than one network changed, and nothing that belongs to none.

    Args:
        parts: That changed, of `changed_parts`.
        target: Says how many networks there are.
    """
    return len(parts) <= min(1, target.num_parts) and not any(isinstance(k, str) for k in parts)


def _same(first: Sequence[Release], second: Sequence[Release]) -> bool:
    """Return whether answers are the same, bit for bit."""
    return [_bits(one) for one in first] == [_bits(one) for one in second]


def _bits(release: Release) -> list[tuple[float, bytes]]:
    return [
        (block.grid, block.integers.numpy().tobytes())
        if isinstance(block, LatticeBlock)
        else (0.0, block.values.numpy().tobytes())
        for block in release.blocks
    ]


def state_ignores_selections(target: Target, pair: Pair, tape: Tape) -> bool | None:
    """Return whether the state is the same with other selections; None where it is not promised.

    Where it is made again from samples alone after a crash, noise is another one too. A critic
    trained on sampled records follows what was sampled, through noise.

    Args:
        target: The mechanism.
        pair: The canary; of its data sets the first one.
        tape: Of the selections that are turned around.
    """
    mechanism = target.open()
    if not isinstance(mechanism, StatefulMechanism) or (
        mechanism.requirements().samples is not None
    ):
        return None
    noise = Tape() if mechanism.durability == "replay" else tape
    first, second = (
        run_in_process(target, pair, records_of(pair, with_extra=False), source).state
        for source in (TapedNoise(tape), OtherSelections(tape, noise))
    )
    return not changed_parts(first, second, 0)


def changed_parts(first: State, second: State, num_parts: int) -> set[int | str]:
    """Return which parts of two states differ, and the names of what belongs to no part.

    Args:
        first: Packed.
        second: Packed, of the same run on other records.
        num_parts: How many networks there are: tensors with so many rows have one for each.
    """
    changed: set[int | str] = set(first.keys() ^ second.keys())
    for name in first.keys() & second.keys():
        one, other = first[name], second[name]
        if one.shape != other.shape:
            changed.add(name)
        elif num_parts and one.shape[:1] == (num_parts,):
            changed |= {k for k in range(num_parts) if not torch.equal(one[k], other[k])}
        elif not torch.equal(one, other):
            changed.add(name)
    return changed
