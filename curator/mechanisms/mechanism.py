"""The one interface that every method stands behind.

A mechanism knows what a release costs before any private byte is read, and never answers with
anything but a `Release`. There are three kinds: those that pay for each gradient, those that
release something once and answer every gradient from it, and those that pay for each gradient and
keep a private state from one to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor

    from curator.accounting.events.base import PrivacyEvent
    from curator.privacy.event import SamplingRate
    from curator.privacy.noise import NoiseSource
    from curator.privacy.private import Private
    from curator.privacy.records import RecordBatch, Samples
    from curator.privacy.release import Release


class Mechanism(Protocol):
    """What the ledger and the service need to know of every mechanism."""

    @property
    def rows_per_step(self) -> int | None:
        """Rows that every step must have; None when any number will do."""
        ...

    @property
    def noise_multiplier(self) -> float:
        """The noise of one release over its sensitivity; what a steward's policy bounds."""
        ...

    def setup_event(self) -> PrivacyEvent:
        """Return the one-off cost, charged once before the first step; often `NoEvent`."""
        ...

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient; known before any private byte is read."""
        ...

    def check_samples(self, samples: Samples) -> None:
        """Refuse samples of a shape this run did not declare.

        Raises:
            MalformedRequest: If the number of rows or the labels do not fit the specification.
        """
        ...


@runtime_checkable
class SampledMechanism(Mechanism, Protocol):
    """Pays for each gradient, computed on a fresh Poisson sample of the records."""

    sampling_rate: SamplingRate
    capacity: int

    def gradient(
        self, samples: Samples, records: Private[RecordBatch], noise: NoiseSource
    ) -> Release:
        """Return a noisy gradient with respect to the images, one row per sample."""
        ...


@runtime_checkable
class ReleasedOnceMechanism(Mechanism, Protocol):
    """Pays once for a release, then answers every gradient by post-processing it."""

    def setup(self, batches: Iterable[Private[RecordBatch]], noise: NoiseSource) -> Release:
        """Return the one release; `batches` cover every record once, all of one padded shape."""
        ...

    def gradient(self, samples: Samples, released: Release) -> Release:
        """Return the gradient with respect to the images; touches nothing private."""
        ...


@runtime_checkable
class TrainedOnceMechanism(ReleasedOnceMechanism, Protocol):
    """Trains something by noised sums over fresh samples, and releases it with what it made of it.

    The `batches` of `setup` then begin with `num_training_samples` fresh Poisson samples; every
    record once comes after them. All of it is paid for before the first is drawn.
    """

    training_rate: SamplingRate
    training_capacity: int
    num_training_samples: int
    training_noise_multiplier: float


Durability = Literal["replay", "every-step"]
"""`replay`: the next state follows from the state and the samples, whatever the noise, so samples
are kept, and the state now and then. `every-step`: the state is kept before each answer leaves."""


@runtime_checkable
class StatefulMechanism(Mechanism, Protocol):
    """Pays for each gradient, and keeps a private state that is never released.

    The state is a function of the records, of the samples of earlier steps, of public seeds and of
    what was released. It is never made from a secret selection. It outlives the process that holds
    the run: `durability` says how.
    """

    @property
    def durability(self) -> Durability:
        """How the state is kept through a crash; the same for every run of a mechanism."""
        ...

    def start(self, batches: Iterable[Private[RecordBatch]]) -> Any:
        """Return the state before the first step; `batches` as for a mechanism of one release."""
        ...

    def gradient(self, state: Any, samples: Samples, noise: NoiseSource) -> tuple[Any, Release]:
        """Return the next state and a noisy gradient with respect to the images."""
        ...

    def pack(self, state: Any) -> dict[str, Tensor]:
        """Return all of a state that the records do not say, as tensors of the processor.

        The names are words of letters, digits, dots and underscores; shapes and types are public.
        """
        ...

    def unpack(self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]) -> Any:
        """Return the state that was packed, bit for bit; `batches` as for `start`."""
        ...


@runtime_checkable
class SampledStatefulMechanism(StatefulMechanism, Protocol):
    """Pays for each gradient, and keeps a state that noised sums over fresh samples train.

    The `batches` of `start` and `unpack` are then an endless stream of fresh Poisson samples, and
    the state keeps the stream: each batch that a step takes from it is paid for by that step.
    """

    sampling_rate: SamplingRate
    capacity: int


@runtime_checkable
class NumberedMechanism(StatefulMechanism, Protocol):
    """Its cost relies on the number of each step, which the ledger keeps and never gives twice."""

    def numbered(self, state: Any, step: int) -> Any:
        """Return the state with the number of the step that comes, counted from one."""
        ...


ServedMechanism = SampledMechanism | ReleasedOnceMechanism | StatefulMechanism
"""Every kind that a run may have."""
