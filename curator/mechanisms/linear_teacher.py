"""A linear classifier that is learned by full-batch gradient descent, paid per step.

Statement and proof: linear_teacher.md. The analyst sends a linear map and the network whose
features it is on; the answer is the noised sum of all records' clipped gradients with respect to
the map, or, in its place, of each class's features and their squares. Public features and the
labels of records meet in no other number.

Shape legend: M records of a batch, P pixels, F features, K classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.divergences import feature_nets, linear_softmax
from curator.divergences.architectures import Architecture
from curator.divergences.device import compute_device
from curator.divergences.feature_nets import FeatureShape, feature_rows
from curator.divergences.scattering import Scattering
from curator.errors import MalformedRequest
from curator.mechanisms.base import Requirements, StatefulMechanism
from curator.mechanisms.specification import MAX_ROWS, MAX_UNITS, Specification, refuse_beyond
from curator.mechanisms.uploaded_weights import (
    digest_of,
    extractor_shape,
    read_weights,
    weight_bytes,
)
from curator.privacy.batches import ImageSpace, RecordBatch, Samples, shape_of_pass
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private, Sealed
from curator.privacy.release import Release
from curator.sanitizer.outer import (
    LEFT_RADIUS,
    RIGHT_RADIUS,
    Factors,
    OuterBounds,
    in_parts,
    release_outer_sum,
    right_rows,
)

_FEATURES_IN_A_RADIUS: Final = feature_nets.ROW_RADIUS * linear_softmax.FEATURE_STEP
_MAX_WORK: Final = 1 << 40  # multiplications for the features of all records: minutes
_MAX_STEP_WORK: Final = 1 << 38  # the same of a step
_RECORD_BYTES: Final = 17  # of a label, a unit and a mask, beside the pixels


class LinearTeacherSpec(Specification):
    """Public parameters of one run.

    The map is on the features that `features` names: pixels in [0, 1]; scattering coefficients,
    each group of maps with mean 0 and variance 1; or `num_features` rectified outputs of a network
    of this architecture, whose weights come with every step. A row is the features with `bias`
    below them, scaled to norm 1. A step `asks` for the gradient: the residual of each record, and
    so its gradient, is clipped to `clip_norm`, over which `noise_multiplier` is. Or it asks for
    class sums of [row, its squares scaled to norm 1, 1] / sqrt(3), with a `clip_norm` of 1 and a
    map of zeros in the place of the sums. `max_size` and `max_records_per_unit` repeat, or
    exceed, what the data set declares: so many records are kept between steps.
    """

    asks: Literal["gradient", "class-sums"]
    features: Literal["pixels", "scattering", Architecture]
    num_features: Annotated[int, Field(ge=0, le=feature_nets.MAX_FEATURES)]
    bias: Annotated[float, Field(ge=1e-3, le=100)]
    clip_norm: Annotated[float, Field(ge=1e-3, le=2)]
    max_size: Annotated[int, Field(ge=1, le=MAX_UNITS)]
    max_records_per_unit: Annotated[int, Field(ge=1, le=MAX_ROWS)]

    @model_validator(mode="after")
    def _check_features(self) -> Self:
        if (self.num_features > 0) != (self.features not in {"pixels", "scattering"}):
            msg = "num_features must be given for a network, and be 0 otherwise"
            raise ValueError(msg)
        if self.asks == "class-sums" and self.clip_norm != 1:
            msg = "clip_norm must be 1 where class sums are asked"
            raise ValueError(msg)
        return self

    @property
    def kept_rows(self) -> int:
        """Rows of all batches, with their padding."""
        return math.prod(shape_of_pass(self.max_size, self.max_records_per_unit))

    def width(self, space: ImageSpace) -> int:
        """Return the length of a row: F + 1, and of what class sums are of, 2 (F + 1) + 1."""
        width = self.num_features + 1
        if self.features == "pixels":
            width = space.dimension + 1
        elif self.features == "scattering":
            width = _scattering(space).num_coefficients + 1
        return width if self.asks == "gradient" else 2 * width + 1

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the records and of their rows."""
        levels = space.dimension * space.level_bytes
        return self.kept_rows * (levels + _RECORD_BYTES + 2 * self.width(space))


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class TeacherState(Sealed):
    """All records, and their rows by the network of the last step, so that they are made once."""

    batches: tuple[Private[RecordBatch], ...]
    rows: tuple[Tensor, ...] = ()
    network: bytes = b""


@final
class LinearTeacher(StatefulMechanism):
    """Answers each step with the gradient of the cross-entropy of a linear map, over all records.

    References:
        [abadi:16], algorithm 1, without sampling.
    """

    name = "linear-teacher"
    specification = LinearTeacherSpec
    durability = "every-step"
    sensitivity = (
        "the gradient of each record is clipped to C, or its row has norm at most C = 1, and a "
        "unit of n records counts each an n-th, so the sum moves by at most C"
    )
    spec: LinearTeacherSpec

    def __init__(self, spec: LinearTeacherSpec, space: ImageSpace) -> None:
        """See `Mechanism`."""
        super().__init__(spec, space)
        self.shape = network_shape(spec, space)
        self._bounds = _bounds(spec, space)

    @property
    def rows_per_step(self) -> int:
        """See `Mechanism`: a row of weights for each class."""
        return self.space.num_classes

    def requirements(self) -> Requirements:
        """See `Mechanism`; steps send weights."""
        return Requirements(
            samples=None,
            max_size=self.spec.max_size,
            max_records_per_unit=self.spec.max_records_per_unit,
            numbers_per_row=self.spec.width(self.space),
            weight_bytes=weight_bytes(self._network_sizes),
            answer_bytes=8,  # a sum over many records does not fit 4
        )

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient.

        Privacy:
            A Gaussian release of a sum of sensitivity C under add-or-remove-one-unit.
        """
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier)

    def check_samples(self, samples: Samples) -> None:
        """Refuse a map or a network that this run did not declare.

        Raises:
            MalformedRequest: If there is not a row of bounded weights for each class, or the
                network is not of the architecture.

        Privacy:
            Reads the request and public facts only.
        """
        wanted, largest = self._bounds.shape, linear_softmax.LARGEST_WEIGHT
        if tuple(samples.images_ND.shape) != wanted:
            detail = f"features: expected the map, {wanted[0]} rows of {wanted[1]} weights"
            raise MalformedRequest(detail)
        if not bool((samples.images_ND.abs() <= largest).all()):  # false for NaN
            detail = f"features: expected finite weights of at most {largest:g} in size"
            raise MalformedRequest(detail)
        if self.spec.asks == "class-sums" and bool(samples.images_ND.any()):
            detail = "features: expected zeros, in the place of class sums"
            raise MalformedRequest(detail)
        self._network(samples)

    def start(self, batches: Iterable[Private[RecordBatch]]) -> TeacherState:
        """Keep every record.

        Privacy:
            The state is private and is never released.
        """
        return TeacherState(batches=tuple(batches))

    def gradient(
        self, state: TeacherState, samples: Samples, noise: NoiseSource
    ) -> tuple[TeacherState, Release]:
        """Return the noised sum of all records' gradients, or of their rows by class.

        Returns:
            The same records with their rows, and the sum, as large as the map that was sent.

        Privacy:
            A record's factors are functions of that record, the map and the network alone, of
            certified norms; those of a unit are shared out, so it moves the sum by at most C.

        References:
            [abadi:16], algorithm 1.
        """
        with_rows = self._with_rows(state, samples)

        def compute() -> Iterator[Factors]:
            for sealed, rows_MF in zip(with_rows.batches, with_rows.rows, strict=True):
                batch = sealed.unseal()
                said_MK = self._said(rows_MF, samples, batch.labels_M.to(rows_MF.device))
                yield said_MK, rows_MF, torch.where(batch.mask_M, batch.units_M, -1)

        return with_rows, release_outer_sum(compute, bounds=self._bounds, noise=noise)

    def pack(self, state: TeacherState) -> dict[str, Tensor]:  # noqa: ARG002 - records are read again
        """Return nothing: a state is its records, and rows that follow from what is asked."""
        return {}

    def unpack(
        self,
        tensors: Mapping[str, Tensor],  # noqa: ARG002 - there are none
        batches: Iterable[Private[RecordBatch]],
    ) -> TeacherState:
        """See `StatefulMechanism`.

        Privacy:
            As for `start`.
        """
        return self.start(batches)

    def _said(self, rows_MF: Tensor, samples: Samples, labels_M: Tensor) -> Tensor:
        """Return what a row counts for each class.

        Privacy:
            Row i is a function of record i and the map, bit for bit.
        """
        if self.spec.asks == "class-sums":
            return linear_softmax.indicators(labels_M, self.space.num_classes, LEFT_RADIUS)
        width, clip, radii = rows_MF.shape[1], self.spec.clip_norm, (LEFT_RADIUS, RIGHT_RADIUS)
        pairs = zip(in_parts(rows_MF, width), in_parts(labels_M, width), strict=True)
        parts = [
            linear_softmax.residuals(rows, samples.images_ND, labels, clip=clip, radii=radii)
            for rows, labels in pairs
        ]
        return torch.cat(parts)

    def _with_rows(self, state: TeacherState, samples: Samples) -> TeacherState:
        """Return the state with the rows of a step's network; whether they are there is public.

        Privacy:
            Row i is a function of record i and the network alone, bit for bit.
        """
        weights, width = self._network(samples), self.spec.width(self.space)
        network = digest_of(weights)
        if network == state.network:
            return state

        def rows_of(levels_MP: Tensor) -> Tensor:
            integers_MF = self._integers(levels_MP.to(compute_device()), weights)
            rows_MF = linear_softmax.unit_rows(integers_MF, self.spec.bias, RIGHT_RADIUS)
            if self.spec.asks == "class-sums":
                return linear_softmax.moment_rows(rows_MF, RIGHT_RADIUS)
            return rows_MF

        rows = tuple(
            right_rows(sealed.unseal().levels_MD, rows_of, width) for sealed in state.batches
        )
        return TeacherState(batches=state.batches, rows=rows, network=network)

    def _integers(self, levels_MP: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        """Return features (M, F) as float64 multiples of their step.

        Privacy:
            Row i is a function of record i and the network alone, bit for bit.
        """
        space = self.space
        if self.shape is not None:
            on_device = {name: value.to(levels_MP.device) for name, value in weights.items()}
            rows = feature_rows(self.shape, on_device, levels_MP, _FEATURES_IN_A_RADIUS)
            return rows.clamp_min(0)
        if self.spec.features == "pixels":
            return linear_softmax.pixel_integers(levels_MP, space.max_level)
        return linear_softmax.scattering_integers(_scattering(space), levels_MP, space.max_level)

    def _network(self, samples: Samples) -> dict[str, Tensor]:
        """Return the weights of a step's network; there are none for features of other kinds.

        Privacy:
            Reads the request and public facts only.
        """
        return read_weights(samples.weights, self._network_sizes, feature_nets.LARGEST_WEIGHT)

    @property
    def _network_sizes(self) -> dict[str, tuple[int, ...]]:
        return {} if self.shape is None else self.shape.sizes


def network_shape(spec: LinearTeacherSpec, space: ImageSpace) -> FeatureShape | None:
    """Return the sizes of the network, if the features are of one.

    Raises:
        MalformedRequest: If it does not fit images of this size, or a run would take absurdly long.

    Privacy:
        Reads the request and public facts only.
    """
    rows, width = spec.kept_rows, spec.width(space)
    refuse_beyond(
        {
            "features: too many for images of this size": (width, linear_softmax.MAX_FEATURES),
            "max_size, features: too much work for one step": (
                rows * width * space.num_classes,
                _MAX_STEP_WORK,
            ),
        }
    )
    if spec.features == "pixels" or spec.features == "scattering":
        return None
    shape = extractor_shape(spec.features, spec.num_features, space)
    work = rows * shape.multiplications
    refuse_beyond({"max_size, features: too much work for all records": (work, _MAX_WORK)})
    return shape


def _bounds(spec: LinearTeacherSpec, space: ImageSpace) -> OuterBounds:
    """Return how far a unit may move a step's sum.

    Raises:
        MalformedRequest: If the noise is too large for so many weights.

    Privacy:
        Reads the request and public facts only.
    """
    try:
        return OuterBounds(
            shape=(space.num_classes, spec.width(space)),
            clip_norm=spec.clip_norm,
            noise_multiplier=spec.noise_multiplier,
        )
    except ValueError as error:  # its words are about public numbers
        detail = f"features, noise_multiplier: {error}"
        raise MalformedRequest(detail) from None


def _scattering(space: ImageSpace) -> Scattering:
    return Scattering(channels=space.channels, height=space.height, width=space.width)
