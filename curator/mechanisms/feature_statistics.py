"""Statistics of public features: class means, refined, and second moments about them, each charged.

Statement and proof: feature_statistics.md. The features are those of a network that the steward has
added, which saw no private record. After `setup` nothing here can reach a record.

Shape legend: N samples, M rows of a batch, K classes, R features, S directions, H moment matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.composed import ComposedEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.divergences import feature_nets
from curator.divergences.architectures import PublicArchitecture
from curator.divergences.feature_maps import ROW_UNITS, NetworkFeatures, class_gradients
from curator.divergences.feature_moments import (
    MAX_DIRECTIONS,
    Centres,
    longest,
    spread_radius,
    subspace,
    symmetric,
)
from curator.divergences.feature_nets import FeatureShape
from curator.errors import MalformedRequest
from curator.mechanisms.base import ReleasedOnceMechanism, Requirements
from curator.mechanisms.counted_features import CountedFeatures
from curator.mechanisms.public_networks import DIGEST, NETWORK_NAME, read_network
from curator.mechanisms.specification import (
    MAX_ROWS,
    MAX_UNITS,
    NoiseMultiplier,
    Specification,
    refuse_beyond,
)
from curator.mechanisms.state_size import rows_bytes
from curator.privacy.batches import ImageSpace, RecordBatch, Samples, shape_of_pass
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import Release
from curator.sanitizer.outer import right_rows
from curator.sanitizer.post_process import post_process, release_values
from curator.sanitizer.summed import KeptRows, release_class_sums

_MAX_WORK: Final = 1 << 43  # multiplications for the features of all records: an hour
_MAX_STEP_WORK: Final = 1 << 36  # the same of a step's images
_MAX_STEP_VALUES: Final = 1 << 27  # kept for the slopes of all rows of a step: 512 MiB
_KEPT_OF_A_MAP: Final = 4  # before and after a bias, a bound and a sum
_MAX_PRODUCTS: Final = 1 << 27  # of all rows of a batch: 1 GiB
_MAX_RELEASED_VALUES: Final = 1 << 22
_MAX_REFINEMENTS: Final = 3
_KEPT_BYTES: Final = 2  # of a number of a row
_RECORD_BYTES: Final = 17  # of a label, a unit and a mask, beside the pixels


class FeatureStatisticsSpec(Specification):
    """Public parameters of one run.

    The features are those of the `network` that the steward has added under this name, whose file
    has the digest `network_sha256`; that no record of a data set here trained it is what the
    steward declared, and `network_declared` repeats. They are the `num_features` rectified outputs
    of a network that has outputs; else averages of the maps that each of its `stages` ends with,
    over `cells` by `cells` parts, of images whose pixels are repeated `enlarged` times; of a
    transformer the image's token after each of these blocks. Each stage's are scaled to an equal
    share of a norm of 1.

    First class sums of the features are released, with the constant `count_scale` below them;
    `noise_multiplier` is over their sensitivity 1. Each of `refinements` is the noise multiplier of
    class sums of how far the features are from the means so far, cut at `radius_scale` times what
    the means say that it is in the root of the mean of squares. Last come sums of the products of
    the same in `moment_width` directions, by class or of all records together, at
    `moment_noise_multiplier`. `max_size` and `max_records_per_unit` repeat, or exceed, what the
    data set declares: so many records are kept while the release is made.
    """

    network: Annotated[str, Field(pattern=NETWORK_NAME)]
    network_sha256: Annotated[str, Field(pattern=DIGEST)]
    network_declared: Literal["no-private-record-trained-it"]
    architecture: PublicArchitecture
    num_features: Annotated[int, Field(ge=0, le=feature_nets.MAX_FEATURES)]
    stages: Annotated[list[Annotated[int, Field(ge=1, le=12)]], Field(max_length=8)]
    cells: Annotated[int, Field(ge=1, le=feature_nets.MAX_CELLS)]
    enlarged: Annotated[int, Field(ge=1, le=feature_nets.MAX_ENLARGED)]
    count_scale: Annotated[float, Field(ge=1e-3, le=10)]
    refinements: Annotated[list[NoiseMultiplier], Field(max_length=_MAX_REFINEMENTS)]
    radius_scale: Annotated[float, Field(ge=0.25, le=8)]
    moments: Literal["together", "by-class"]
    moment_width: Annotated[int, Field(ge=1, le=MAX_DIRECTIONS)]
    moment_noise_multiplier: NoiseMultiplier
    moment_seed: Annotated[int, Field(ge=0, lt=2**63)]
    max_size: Annotated[int, Field(ge=1, le=MAX_UNITS)]
    max_records_per_unit: Annotated[int, Field(ge=1, le=MAX_ROWS)]

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        if self.stages != sorted(set(self.stages)):
            msg = "stages must be in their order, each once"
            raise ValueError(msg)
        return self

    @property
    def kept_rows(self) -> int:
        """Rows of all batches, with their padding."""
        return math.prod(shape_of_pass(self.max_size, self.max_records_per_unit))

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the records and of their rows, of the network and of the release."""
        shape = features_of(self, space)
        width = sum(shape.part_widths) + 1
        levels = space.dimension * space.level_bytes
        kept = self.kept_rows * (levels + _RECORD_BYTES + _KEPT_BYTES * width)
        return kept + rows_bytes(1, shape.num_parameters + _num_released(self, width, space))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Means:
    """What is released of the features of each class so far, and the noise in it."""

    values_KR: Tensor
    counts_K: Tensor
    noise_std: float  # in each coordinate of a sum of which the means are the quotient

    @property
    def variances(self) -> Tensor:
        """Of the noise in each coordinate of a mean [K]."""
        return (self.noise_std / self.counts_K).square()

    def refined(self, again_KR: Tensor, noise_std: float) -> _Means:
        """Return the means with a second estimate of them, each weighed by its noise."""
        weight = self.noise_std**2 / (self.noise_std**2 + noise_std**2)
        values_KR = self.values_KR + weight * (again_KR - self.values_KR)
        return replace(self, values_KR=values_KR, noise_std=math.sqrt(weight) * noise_std)


@final
class FeatureStatistics(ReleasedOnceMechanism):
    """Releases class means of public features and second moments about them, then rests.

    References:
        [harder:23], section 4; [biswas:20], which recentres and cuts again.
    """

    name = "feature-statistics"
    specification = FeatureStatisticsSpec
    sensitivity = (
        "sums of one row of norm at most 1 per unit move by at most 1: of features first, then of "
        "what is left of them about released means, over a released radius, and of its products"
    )
    spec: FeatureStatisticsSpec

    def __init__(self, spec: FeatureStatisticsSpec, space: ImageSpace) -> None:
        """Read the network."""
        super().__init__(spec, space)
        shape = features_of(spec, space)
        _check_work(spec, shape, space)
        weights = read_network(spec.network, spec.network_sha256, spec.architecture, shape.sizes)
        self._features = NetworkFeatures(shape=shape, weights=weights)
        self._counted = CountedFeatures(
            count_scale=spec.count_scale, noise_multiplier=spec.noise_multiplier
        )

    @property
    def least_noise_multiplier(self) -> float:
        """See `Mechanism`; every sum has noise of its own."""
        return min(event.noise_multiplier for event in self._events)

    def requirements(self) -> Requirements:
        """See `Mechanism`; all records are kept for a while."""
        return replace(
            super().requirements(),
            max_size=self.spec.max_size,
            max_records_per_unit=self.spec.max_records_per_unit,
        )

    @property
    def any_rows(self) -> range:
        """See `Mechanism`: as many as there are time and memory for."""
        shape = self._features.shape
        in_time = _MAX_STEP_WORK // shape.multiplications
        in_memory = _MAX_STEP_VALUES // (_KEPT_OF_A_MAP * shape.num_activations)
        return range(1, min(MAX_ROWS, max(1, min(in_time, in_memory))) + 1)

    def setup_event(self) -> PrivacyEvent:
        """Return the cost of everything that is released.

        Privacy:
            Gaussian releases of sums of sensitivity 1 under add-or-remove-one-unit, one after the
            other; the rows of each are functions of a record and of the sums before it.
        """
        return ComposedEvent(in_turn=self._events)

    @property
    def _events(self) -> tuple[GaussianEvent, ...]:
        spec = self.spec
        noises = (spec.noise_multiplier, *spec.refinements, spec.moment_noise_multiplier)
        return tuple(GaussianEvent(noise_multiplier=one) for one in noises)

    def setup(self, batches: Iterable[Private[RecordBatch]], noise: NoiseSource) -> Release:
        """Release class means, refine them, and release second moments about them.

        Returns:
            One block of rows of R + 1 numbers: the directions (S), the moment matrices (H S), both
            padded with zeros; and for each class (K) the sum of features that means and count
            amount to, then the count times c, all over sqrt(1 + c^2).

        Privacy:
            A record's rows are functions of that record alone, given the sums before; each has norm
            at most 1 and the rows of a unit are bounded together: sensitivity 1 under
            add-or-remove-one-unit, sum by sum. What is returned is made of the sums alone.

        References:
            [harder:23], section 4.
        """
        sealed, kept = [], []
        for one in batches:  # a batch at a time: between two, the service may end it
            sealed.append(one)
            kept.append(self._kept(one.unseal()))
        width, num_classes = self._features.num_features, self.space.num_classes

        def first_rows(kept_MR: Tensor) -> Tensor:
            return self._counted.rows(kept_MR[:, :-1].to(torch.float64) / ROW_UNITS)

        first = release_class_sums(
            sealed,
            KeptRows(rows_of=first_rows, kept=kept),
            num_features=width + 1,
            num_classes=num_classes,
            noise_multiplier=self.spec.noise_multiplier,
            noise=noise,
        )
        means = self._first_means(release_values(first))
        for noise_multiplier in self.spec.refinements:
            centres = self._centres(means)
            more = release_class_sums(
                sealed,
                KeptRows(rows_of=centres.rows, kept=kept),
                num_features=width,
                num_classes=num_classes,
                noise_multiplier=noise_multiplier,
                noise=noise,
            )
            apart_KR = release_values(more) * centres.radius / means.counts_K.unsqueeze(1)
            again_KR = centres.integers_KR / ROW_UNITS + apart_KR
            means = means.refined(again_KR, noise_multiplier * centres.radius)
        centres = self._centres(means)
        directions_RS = subspace(means.values_KR, self.spec.moment_width, self.spec.moment_seed)

        def products(kept_MR: Tensor) -> Tensor:
            return centres.product_rows(kept_MR, directions_RS)

        last = release_class_sums(
            sealed,
            KeptRows(rows_of=products, kept=kept, together=self.spec.moments == "together"),
            num_features=_num_products(self.spec.moment_width),
            num_classes=num_classes,
            noise_multiplier=self.spec.moment_noise_multiplier,
            noise=noise,
        )
        return post_process(
            last, lambda sums: self._table(means, directions_RS, sums * centres.radius**2)
        )

    def gradient(self, samples: Samples, released: Release) -> Release:
        """Return the gradient of the class-wise MMD^2 with respect to the images.

        Privacy:
            Post-processing: a function of the release and the samples.
        """

        def rows(values: Tensor) -> Tensor:
            means_KR = self._counted.class_means(values[-self.space.num_classes :])
            return class_gradients(self._features, samples.images_ND, samples.labels_N, means_KR)

        return post_process(released, rows)

    def _kept(self, batch: RecordBatch) -> Tensor:
        """Return the integers of each record's features with its class below them, as int16.

        Privacy:
            Row i is a function of record i alone, whatever its companions do.
        """
        width = self._features.num_features
        rows_MR = right_rows(batch.levels_MD, self._features.integer_rows, width)
        classes_M1 = batch.labels_M.clamp(-1, self.space.num_classes).unsqueeze(1)
        return torch.cat((rows_MR, classes_M1.to(rows_MR)), dim=1)

    def _first_means(self, sums_KR: Tensor) -> _Means:
        """Return the means that the first sums say.

        Privacy:
            Reads released values only.
        """
        return _Means(
            values_KR=self._counted.class_means(sums_KR),
            counts_K=self._counted.counts(sums_KR),
            noise_std=self.spec.noise_multiplier / self._counted.shrink,
        )

    def _centres(self, means: _Means) -> Centres:
        """Return where rows are measured from, and how far they may be.

        Privacy:
            Reads released values only.
        """
        radius = spread_radius(
            means.values_KR, means.counts_K, means.variances, self.spec.radius_scale
        )
        return Centres.of(means.values_KR, radius)

    def _table(self, means: _Means, directions_RS: Tensor, sums_HV: Tensor) -> Tensor:
        """Return the rows of the release.

        Privacy:
            Reads released values only.
        """
        counts_K1 = means.counts_K.unsqueeze(1)
        counts_H = counts_K1[:, 0] if len(sums_HV) > 1 else means.counts_K.sum().unsqueeze(0)
        num_directions = directions_RS.shape[1]
        matrices_HSS = symmetric(sums_HV / counts_H.unsqueeze(1), num_directions)
        sums_KR = means.values_KR * (counts_K1 * self._counted.shrink)
        parts = (
            (directions_RS / longest(directions_RS)).T,
            matrices_HSS.reshape(-1, num_directions),
            torch.cat((sums_KR, counts_K1 * self._counted.count_value), dim=1),
        )
        width = sums_KR.shape[1] + 1
        padded = [torch.nn.functional.pad(one, (0, width - one.shape[1])) for one in parts]
        return torch.cat(padded)


def features_of(spec: FeatureStatisticsSpec, space: ImageSpace) -> FeatureShape:
    """Return the sizes of the network.

    Raises:
        MalformedRequest: If it has no such features of images of this size.

    Privacy:
        Reads the request and public facts only.
    """
    try:
        return FeatureShape(
            architecture=spec.architecture,
            channels=space.channels,
            height=space.height,
            width=space.width,
            max_level=space.max_level,
            num_features=spec.num_features,
            stages=tuple(spec.stages),
            cells=spec.cells,
            enlarged=spec.enlarged,
        )
    except ValueError as error:  # its words are about public sizes
        raise MalformedRequest(str(error)) from None


def _check_work(spec: FeatureStatisticsSpec, shape: FeatureShape, space: ImageSpace) -> None:
    """Refuse a run that would take absurdly long, or release absurdly much.

    Raises:
        MalformedRequest: If it would.

    Privacy:
        Reads the request and public facts only.
    """
    width = sum(shape.part_widths) + 1
    work = spec.kept_rows * shape.multiplications
    _, rows_of_batch = shape_of_pass(spec.max_size, spec.max_records_per_unit)
    refuse_beyond(
        {
            "moment_width: more directions than features": (spec.moment_width, width - 1),
            "max_size, architecture, enlarged: too much work for all records": (work, _MAX_WORK),
            "max_records_per_unit, moment_width: too many products for a batch": (
                rows_of_batch * _num_products(spec.moment_width),
                _MAX_PRODUCTS,
            ),
            "stages, cells, moment_width: too many numbers for the classes of this data set": (
                _num_released(spec, width, space),
                _MAX_RELEASED_VALUES,
            ),
        }
    )


def _num_products(num_directions: int) -> int:
    return num_directions * (num_directions + 1) // 2


def _num_released(spec: FeatureStatisticsSpec, width: int, space: ImageSpace) -> int:
    matrices = 1 if spec.moments == "together" else space.num_classes
    return width * (spec.moment_width * (1 + matrices) + space.num_classes)
