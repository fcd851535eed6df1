"""Which kind a mechanism is, found once for each class: asking a protocol takes tens of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeGuard, cast

from curator.mechanisms.mechanism import (
    NumberedMechanism,
    ReleasedOnceMechanism,
    SampledMechanism,
    SampledStatefulMechanism,
    ServedMechanism,
    StatefulMechanism,
    TrainedOnceMechanism,
)
from curator.privacy.event import SamplingRate
from curator.privacy.records import ImageSpace


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What a run declares that the data set never exceeds; None where the cost needs no bound."""

    max_size: int | None  # units
    max_records_per_unit: int | None


class _Specified(Protocol):
    """What every mechanism of the catalogue has."""

    @property
    def spec(self) -> object:
        """The public parameters of a run."""
        ...


_known: dict[tuple[type, type], bool] = {}


def is_stateful(mechanism: ServedMechanism) -> TypeGuard[StatefulMechanism]:
    """Return whether a mechanism keeps a state from one gradient to the next.

    Args:
        mechanism: Of a run.
    """
    return _is(mechanism, StatefulMechanism)


def is_sampled(mechanism: ServedMechanism) -> TypeGuard[SampledMechanism]:
    """Return whether a mechanism is given a fresh sample for each gradient.

    Args:
        mechanism: Of a run.
    """
    return _is(mechanism, SampledMechanism)


def is_released_once(mechanism: ServedMechanism) -> TypeGuard[ReleasedOnceMechanism]:
    """Return whether a mechanism pays once, for one release.

    Args:
        mechanism: Of a run.
    """
    return _is(mechanism, ReleasedOnceMechanism)


def is_numbered(mechanism: StatefulMechanism) -> TypeGuard[NumberedMechanism]:
    """Return whether a mechanism is told the number of each step.

    Args:
        mechanism: Of a run.
    """
    return _is(mechanism, NumberedMechanism)


def samples_of(mechanism: ServedMechanism) -> tuple[SamplingRate, int] | None:
    """Return the rate and the capacity of the fresh samples that a mechanism is given.

    Args:
        mechanism: Of a run.

    Returns:
        None if it is given none.
    """
    if isinstance(mechanism, TrainedOnceMechanism):
        return mechanism.training_rate, mechanism.training_capacity
    if isinstance(mechanism, SampledMechanism | SampledStatefulMechanism):
        return mechanism.sampling_rate, mechanism.capacity
    return None


def bounds_of(mechanism: ServedMechanism) -> Bounds:
    """Return the bounds on the data set that a mechanism's cost relies on.

    Every specification with a field of such a name means it so.

    Args:
        mechanism: Of a run.
    """
    spec = cast("_Specified", mechanism).spec  # one without it is refused, not taken as unbounded
    return Bounds(
        max_size=getattr(spec, "max_size", None),
        max_records_per_unit=getattr(spec, "max_records_per_unit", None),
    )


def numbers_of_row(mechanism: ServedMechanism, space: ImageSpace) -> int:
    """Return how many numbers a row of a step has: features where steps send them, else pixels.

    Args:
        mechanism: Of a run with steps.
        space: Of the data set.
    """
    numbers: int = getattr(cast("_Specified", mechanism).spec, "num_features", space.dimension)
    return numbers


def least_noise_multiplier(mechanism: ServedMechanism) -> float:
    """Return the smallest noise multiplier of all that a mechanism releases.

    Args:
        mechanism: Of a run.
    """
    if isinstance(mechanism, TrainedOnceMechanism):
        return min(mechanism.noise_multiplier, mechanism.training_noise_multiplier)
    return mechanism.noise_multiplier


def _is(mechanism: ServedMechanism, protocol: type) -> bool:
    key = type(mechanism), protocol
    if key not in _known:
        _known[key] = isinstance(mechanism, protocol)
    return _known[key]
