"""What mechanisms share that ask every record for one choice, and release how many chose what.

A step of such a mechanism is one Gaussian release without sampling: at noise of hundreds of records
a sample of a share q would need q times the noise for the same epsilon and be scaled up by 1 / q,
which gains nothing, and the draw itself would add to the error.

Shape legend: M records of a batch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, final

import torch
from pydantic import Field
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.errors import MalformedRequest
from curator.mechanisms.base import StatefulMechanism
from curator.mechanisms.specification import MAX_ROWS, MAX_UNITS, Specification
from curator.privacy.batches import ImageSpace, RecordBatch, Samples, shape_of_pass
from curator.privacy.chosen import chosen
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private, Sealed
from curator.privacy.release import Release
from curator.sanitizer.choices import ChoiceBounds, Choices, choices_of, release_choices

_RECORD_BYTES: Final = 17  # of a label, a unit and a mask, beside the pixels

Choose = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps levels (M, D), labels (M) and what is kept of features (M, F) to each row's option (M)."""


class ChoiceSpec(Specification):
    """With every record in memory between steps, and noise over the records of one unit.

    `max_size` units and `max_records_per_unit` repeat, or exceed, what the data set declares. One
    unit moves the counts of a step by `max_records_per_unit` at most, over which
    `noise_multiplier` is.
    """

    max_size: Annotated[int, Field(ge=1, le=MAX_UNITS)]
    max_records_per_unit: Annotated[int, Field(ge=1, le=MAX_ROWS)]

    @property
    def kept_rows(self) -> int:
        """Rows of all batches, with their padding."""
        return math.prod(shape_of_pass(self.max_size, self.max_records_per_unit))

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the records."""
        return self.kept_rows * (space.dimension * space.level_bytes + _RECORD_BYTES)


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ChoiceState(Sealed):
    """All records, and what is kept of the features of each batch; a row of it is a record's."""

    batches: tuple[Private[RecordBatch], ...]
    kept: tuple[Tensor, ...]


class ChoiceMechanism(StatefulMechanism):
    """Answers each step with the noised number of records for each option."""

    durability = "every-step"
    spec: ChoiceSpec

    def __init__(self, spec: ChoiceSpec, space: ImageSpace) -> None:
        """See `Mechanism`."""
        super().__init__(spec, space)
        self.bounds = self._bounds()

    @property
    @abstractmethod
    def num_options(self) -> int:
        """Numbers of an answer."""

    @abstractmethod
    def _asked(self, samples: Samples) -> Choose:
        """Return what a step asks of each record.

        Args:
            samples: Rows that passed `check_samples`.

        Returns:
            A function of which row i of the result depends on record i alone, bit for bit.

        Privacy:
            Reads the request and public facts only.
        """

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one answer.

        Privacy:
            A Gaussian release of counts that one unit moves by `max_records_per_unit` at most,
            under add-or-remove-one-unit.
        """
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier)

    def start(self, batches: Iterable[Private[RecordBatch]]) -> ChoiceState:
        """Keep every record.

        Privacy:
            The state is private and is never released.
        """
        every = tuple(batches)
        kept = tuple(self._kept(one.unseal().levels_MD) for one in every)
        return ChoiceState(batches=every, kept=kept)

    def _kept(self, levels_MD: Tensor) -> Tensor:
        """Return what is kept of the features of a batch (M, F): nothing.

        Privacy:
            Row i is a function of record i alone.
        """
        return torch.zeros((len(levels_MD), 0))

    def gradient(
        self, state: ChoiceState, samples: Samples, noise: NoiseSource
    ) -> tuple[ChoiceState, Release]:
        """Return the same records, and how many of them chose each option, noised.

        Privacy:
            A record's choice is a function of that record and of what is asked; a unit moves the
            counts by its number of records at most. Proof: sanitizer.md, part 5.
        """
        choose = self._asked(samples)

        def compute() -> Iterator[Choices]:
            for sealed, kept in zip(state.batches, state.kept, strict=True):
                batch = sealed.unseal()
                choices_M = choices_of(choose, (batch.levels_MD, batch.labels_M, kept))
                yield choices_M, chosen(batch.mask_M, batch.units_M, -1)

        return state, release_choices(compute, bounds=self.bounds, noise=noise)

    def pack(self, state: ChoiceState) -> dict[str, Tensor]:  # noqa: ARG002 - records are read again
        """Return nothing: a state is its records, and what follows from them."""
        return {}

    def unpack(
        self,
        tensors: Mapping[str, Tensor],  # noqa: ARG002 - there are none
        batches: Iterable[Private[RecordBatch]],
    ) -> ChoiceState:
        """See `StatefulMechanism`.

        Privacy:
            As for `start`.
        """
        return self.start(batches)

    def _bounds(self) -> ChoiceBounds:
        """Return how far a unit may move a step's counts.

        Raises:
            MalformedRequest: If the noise is too large for units of so many records.
        """
        try:
            return ChoiceBounds(
                num_options=self.num_options,
                records_per_unit=self.spec.max_records_per_unit,
                noise_multiplier=self.spec.noise_multiplier,
            )
        except ValueError as error:  # its words are about public numbers
            detail = f"noise_multiplier, max_records_per_unit: {error}"
            raise MalformedRequest(detail) from None


def first_of_least(values_MN: Tensor) -> Tensor:
    """Return the lowest place of the least value of each row, whatever the library's order is.

    Args:
        values_MN: Not NaN.

    Returns:
        int64 (M).
    """
    size = values_MN.shape[1]
    is_least_MN = values_MN == values_MN.amin(dim=1, keepdim=True)
    from_end_N = torch.arange(size, 0, -1, device=values_MN.device)
    return size - (is_least_MN * from_end_N).amax(dim=1)
