"""The one interface that every method stands behind.

A mechanism knows what a release costs before any private byte is read, and never answers with
anything but a `Release`. There are three kinds, and a mechanism is of exactly one, by its base.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from curator.accounting.events.none import NoEvent
from curator.mechanisms.specification import (
    MAX_ROWS,
    BoundedSpecification,
    SampledSpecification,
    Specification,
    check_rows,
)
from curator.privacy.event_numbers import SamplingRate

if TYPE_CHECKING:
    from torch import Tensor

    from curator.accounting.events.base import PrivacyEvent
    from curator.privacy.batches import ImageSpace, RecordBatch, Samples
    from curator.privacy.noise import NoiseSource
    from curator.privacy.private import Private
    from curator.privacy.release import Release


class Kind(StrEnum):
    """When a mechanism pays, and what it remembers."""

    SAMPLED = "sampled"
    """Each gradient pays, computed on a fresh Poisson sample; nothing is remembered."""

    RELEASED_ONCE = "released once"
    """One release pays for all; every gradient is made of it."""

    STATEFUL = "stateful"
    """Each gradient pays, and a private state is kept from one to the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshSamples:
    """Poisson samples that a mechanism is given, each drawn when it is asked for.

    `before_all` is how many come before every record once; None where there is a sample, or more,
    for each step.
    """

    rate: SamplingRate
    capacity: int
    before_all: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirements:
    """What a run needs of its data set.

    `max_size` units and `max_records_per_unit` are bounds that the run declares, and that the data
    set must never exceed; None where the cost relies on none. `numbers_per_row` is what a row of a
    step has: pixels, or features where steps send them; `weight_bytes` come beside the rows. A
    number of an answer may take `answer_bytes`; an answer has `answer_numbers`, at most one a row,
    or as many as its step where that is None.
    """

    samples: FreshSamples | None
    max_size: int | None
    max_records_per_unit: int | None
    numbers_per_row: int
    weight_bytes: int = 0
    answer_bytes: int = 4
    answer_numbers: int | None = None


class Mechanism(ABC):
    """What the ledger and the service need to know of every mechanism.

    `sensitivity` says in a sentence what one unit moves, and by how much. `prices_by_image` is
    whether what is charged depends on the size of images, beside the specification.
    """

    name: ClassVar[str]
    specification: ClassVar[type[Specification]]
    kind: ClassVar[Kind]
    sensitivity: ClassVar[str]
    prices_by_image: ClassVar[bool] = False

    def __init__(self, spec: Specification, space: ImageSpace) -> None:
        """Keep the public parameters of a run, and the public image space of its data set.

        Raises:
            MalformedRequest: If the run would need absurd amounts of memory or time.
        """
        self.spec = spec
        self.space = space

    @classmethod
    def costs_of(cls, spec: Specification, space: ImageSpace) -> tuple[PrivacyEvent, PrivacyEvent]:
        """Return setup and step event of a run that is not made: nothing is drawn or allocated.

        Privacy:
            Functions of the specification and of the size of images.
        """
        asked = cls.__new__(cls)
        Mechanism.__init__(asked, spec, space)
        return asked.setup_event(), asked.step_event()

    @property
    def noise_multiplier(self) -> float:
        """The noise of one release over its sensitivity."""
        return self.spec.noise_multiplier

    @property
    def least_noise_multiplier(self) -> float:
        """The least of all that is released; what a steward's policy bounds."""
        return self.noise_multiplier

    @property
    def rows_per_step(self) -> int | None:
        """Rows that every step must have; None when any number will do."""
        return self.spec.rows_per_step

    @property
    def any_rows(self) -> range:
        """The numbers of rows that a step may have where any will do."""
        return range(1, MAX_ROWS + 1)

    @abstractmethod
    def setup_event(self) -> PrivacyEvent:
        """Return the one-off cost, charged once before the first step.

        Privacy:
            A function of the specification and public facts.
        """

    @abstractmethod
    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient; known before any private byte is read.

        Privacy:
            A function of the specification and public facts.
        """

    def requirements(self) -> Requirements:
        """Return what the run needs of its data set, by its specification."""
        spec, samples = self.spec, None
        if isinstance(spec, SampledSpecification):
            samples = FreshSamples(rate=spec.rate, capacity=spec.capacity)
        bounds = spec if isinstance(spec, BoundedSpecification) else None
        return Requirements(
            samples=samples,
            max_size=None if bounds is None else bounds.max_size,
            max_records_per_unit=None if bounds is None else bounds.max_records_per_unit,
            numbers_per_row=self.space.dimension,
        )

    def check_samples(self, samples: Samples) -> None:
        """Refuse samples of a shape this run did not declare.

        Raises:
            MalformedRequest: If the number of rows, the image size or a label does not fit.

        Privacy:
            Reads the request and public facts only.
        """
        num_rows = self.rows_per_step
        accepted = self.any_rows if num_rows is None else range(num_rows, num_rows + 1)
        check_rows(samples, self.space, accepted)


class SampledMechanism(Mechanism):
    """Pays for each gradient, computed on a fresh Poisson sample of the records."""

    kind = Kind.SAMPLED
    spec: SampledSpecification

    def setup_event(self) -> PrivacyEvent:
        """Return the one-off cost: none.

        Privacy:
            Nothing private is read before the first step.
        """
        return NoEvent()

    @abstractmethod
    def gradient(
        self, samples: Samples, records: Private[RecordBatch], noise: NoiseSource
    ) -> Release:
        """Return a noisy gradient with respect to the images, one row per sample.

        Args:
            samples: Rows that passed `check_samples`.
            records: One fresh Poisson sample, padded to the capacity.
            noise: Secret randomness.

        Privacy:
            Costs `step_event`.
        """


class ReleasedOnceMechanism(Mechanism):
    """Pays once for a release, then answers every gradient by post-processing it."""

    kind = Kind.RELEASED_ONCE

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient: none.

        Privacy:
            Post-processing of the release.
        """
        return NoEvent()

    @abstractmethod
    def setup(self, batches: Iterable[Private[RecordBatch]], noise: NoiseSource) -> Release:
        """Return the one release.

        Args:
            batches: The samples that `requirements` asks for, then every record once, all batches
                of one padded shape, no unit split.
            noise: Secret randomness.

        Privacy:
            Costs `setup_event`, paid for before the first batch is drawn.
        """

    @abstractmethod
    def gradient(self, samples: Samples, released: Release) -> Release:
        """Return the gradient with respect to the images, one row per sample.

        Args:
            samples: Rows that passed `check_samples`.
            released: What `setup` returned.

        Privacy:
            Post-processing: a function of the release and the samples.
        """


Durability = Literal["replay", "every-step"]
"""`replay`: the next state follows from the state and the samples, whatever the noise, so samples
are kept, and the state now and then. `every-step`: the state is kept before each answer leaves."""


class StatefulMechanism(Mechanism):
    """Pays for each gradient, and keeps a private state that is never released.

    The state is a function of the records, of the samples of earlier steps, of public seeds and of
    what was released. It is never made from a secret selection. It outlives the process that holds
    the run: `durability` says how.
    """

    kind = Kind.STATEFUL
    durability: ClassVar[Durability]

    def setup_event(self) -> PrivacyEvent:
        """Return the one-off cost: none.

        Privacy:
            Nothing is released before the first step; what is trained is trained within steps.
        """
        return NoEvent()

    @abstractmethod
    def start(self, batches: Iterable[Private[RecordBatch]]) -> Any:
        """Return the state before the first step.

        Args:
            batches: Every record once, all batches of one padded shape, no unit split. Or, where
                `requirements` asks for samples, an endless stream of them, which the state keeps:
                each that a step takes is paid for by that step.

        Privacy:
            The state is private and is never released.
        """

    def numbered(self, state: Any, step: int) -> Any:  # noqa: ARG002 - for those who need it
        """Return the state with the number of the step that comes, counted from one.

        The ledger never gives a number twice; a cost may rely on it.
        """
        return state

    @abstractmethod
    def gradient(self, state: Any, samples: Samples, noise: NoiseSource) -> tuple[Any, Release]:
        """Return the next state and a noisy gradient with respect to the images.

        Args:
            state: Of `start`, or of the step before.
            samples: Rows that passed `check_samples`.
            noise: Secret randomness.

        Privacy:
            Costs `step_event`.
        """

    @abstractmethod
    def pack(self, state: Any) -> dict[str, Tensor]:
        """Return all of a state that the records do not say, as tensors of the processor.

        The names are words of letters, digits, dots and underscores; shapes and types are public.

        Privacy:
            Private values, for the curator's own disk.
        """

    @abstractmethod
    def unpack(self, tensors: Mapping[str, Tensor], batches: Iterable[Private[RecordBatch]]) -> Any:
        """Return the state that was packed, bit for bit; `batches` as for `start`.

        Privacy:
            As for `start`, of the same records.
        """


ServedMechanism = SampledMechanism | ReleasedOnceMechanism | StatefulMechanism
"""Every kind that a run may have."""
