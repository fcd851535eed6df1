"""Mean embedding of codes (DP-MERF-AE): an autoencoder by DP-SGD, then one release of its codes.

Statement and proof: dp_merf_ae.md. Both are made while the run opens; after `setup` nothing here
can reach a record.

Shape legend: N samples, M slots, P pixels, K classes, R features, V parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.composed import ComposedEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_sum import SampledSumEvent
from curator.divergences.autoencoder import (
    LARGEST_CODE,
    MAX_HIDDEN,
    MAX_PIXELS,
    AutoencoderShape,
    EncoderFeatures,
    autoencoder_parameters,
    example_slopes,
    initial_autoencoder,
    on_grid,
)
from curator.divergences.device import compute_device
from curator.divergences.dp_critic import CriticVector, adam_step, in_chunks
from curator.divergences.feature_maps import class_gradients
from curator.divergences.random_features import fourier_features
from curator.errors import MalformedRequest
from curator.mechanisms.base import FreshSamples, ReleasedOnceMechanism, Requirements
from curator.mechanisms.counted_features import CountedFeatures
from curator.mechanisms.specification import (
    MAX_ROWS,
    BoundedSpecification,
    NoiseMultiplier,
    refuse_beyond,
)
from curator.mechanisms.state_size import rows_bytes
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.event_numbers import MAX_DIMENSION
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import Release
from curator.sanitizer.example_sum import MAX_VALUES, ExampleBounds, release_example_sum
from curator.sanitizer.post_process import join_releases, post_process, release_values
from curator.sanitizer.summed import release_class_sums

_VALUES_AT_ONCE: Final = {"cuda": 1 << 27}  # so many slopes are in memory at a time
_VALUES_IN_CACHE: Final = 1 << 22
_MAX_STEP_VALUES: Final = 1 << 24  # features of all rows of a step: 64 MiB in float32
_FIRST_TURNS: Final = 10  # the running mean forgets the first weights fast
_MAX_COORDINATES = 1 << 26  # of the padded private batch
_MAX_SETUP_WORK = 1 << 43  # values of slopes: a quarter of an hour on a few cores
_MAX_RELEASED_VALUES = 1 << 23


class DpMerfAeSpec(BoundedSpecification):
    """Public parameters of one run.

    The autoencoder is updated `training_steps` times, each time with a fresh Poisson sample of
    `sampling_rate`, padded to `capacity` rows. The gradient of each record is clipped to
    `clip_norm`; their noised sum is divided by `expected_batch_size`. `training_noise_multiplier`
    is over `max_records_per_unit` times `clip_norm`. What is released of the weights is their
    running mean, of which the past keeps `averaging`. `num_features` of the codes are shared
    equally among `bandwidths`; a code is in (-1, 1). `noise_multiplier` is over the sensitivity 1
    of the embedding, and `count_scale` is the constant below its features, so that counts are
    noised too. `max_size` and `max_records_per_unit` repeat, or exceed, what the data set declares.
    """

    expected_batch_size: Annotated[float, Field(ge=1e-3, le=MAX_ROWS)]
    autoencoder: Literal["mlp"]
    hidden_width: Annotated[int, Field(ge=1, le=MAX_HIDDEN)]
    code_width: Annotated[int, Field(ge=1, le=1024)]
    autoencoder_seed: Annotated[int, Field(ge=0, lt=2**63)]
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)]
    training_noise_multiplier: NoiseMultiplier
    training_steps: Annotated[int, Field(ge=1, le=MAX_DIMENSION)]
    training_learning_rate: Annotated[float, Field(gt=0, le=1)]
    averaging: Annotated[float, Field(ge=0, lt=1)]
    num_features: Annotated[int, Field(ge=2, le=MAX_ROWS)]
    bandwidths: Annotated[
        list[Annotated[float, Field(ge=1e-2, le=1e4)]], Field(min_length=1, max_length=32)
    ]
    feature_seed: Annotated[int, Field(ge=0, lt=2**63)]
    count_scale: Annotated[float, Field(ge=1e-3, le=10)]

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.num_features % (2 * len(self.bandwidths)):
            msg = "num_features must be a multiple of twice the number of bandwidths"
            raise ValueError(msg)
        _ = self.bounds  # raises where no lattice point is left
        return self

    @property
    def bounds(self) -> ExampleBounds:
        """How far a unit may move a sum of slopes."""
        return ExampleBounds(
            clip_norm=self.clip_norm,
            records_per_unit=self.max_records_per_unit,
            noise_multiplier=self.training_noise_multiplier,
        )

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the public frequencies, and of the release."""
        frequencies = (self.code_width + 2) * self.num_features // 2
        released = _num_released_values(self, autoencoder_shape(self, space), space)
        return rows_bytes(1, frequencies + 2 * released)


@final
class DpMerfAe(ReleasedOnceMechanism):
    """Trains an autoencoder, releases it with class-wise sums of its codes' features, then rests.

    References:
        [harder:21], and its variant with an autoencoder in [chen:20], appendix.
    """

    name = "dp-merf-ae"
    specification = DpMerfAeSpec
    sensitivity = (
        "the gradient of each record is clipped to C, so the sum of an update moves by at most C "
        "times the records of a unit, by twice that should the sample not fit; then sums of one "
        "row of norm at most 1 per unit, whatever the encoder, move by at most 1"
    )
    spec: DpMerfAeSpec

    def __init__(self, spec: DpMerfAeSpec, space: ImageSpace) -> None:
        """Draw the public frequencies."""
        super().__init__(spec, space)
        self._shape = autoencoder_shape(spec, space)
        self._fourier = fourier_features(
            dimension=spec.code_width,
            largest_input=LARGEST_CODE,
            num_features=spec.num_features,
            bandwidths=tuple(spec.bandwidths),
            seed=spec.feature_seed,
        )
        self._counted = CountedFeatures(
            count_scale=spec.count_scale, noise_multiplier=spec.noise_multiplier
        )

    @property
    def least_noise_multiplier(self) -> float:
        """See `Mechanism`; the sums of the training have noise of their own."""
        return min(self.spec.noise_multiplier, self.spec.training_noise_multiplier)

    def requirements(self) -> Requirements:
        """See `Mechanism`; all samples are for the training."""
        spec = self.spec
        samples = FreshSamples(
            rate=spec.rate, capacity=spec.capacity, before_all=spec.training_steps
        )
        return replace(super().requirements(), samples=samples)

    def setup_event(self) -> PrivacyEvent:
        """Return the cost of everything that is released.

        Privacy:
            As many noised sums over fresh Poisson samples as the training has steps, then a
            Gaussian release of a sum of sensitivity 1 under add-or-remove-one-unit, whose rows are
            functions of a record and of the sums before it.
        """
        sums = SampledSumEvent(
            sampling_rate=self.spec.rate,
            noise_multiplier=self.spec.training_noise_multiplier,
            overflow_probability=self.spec.overflow_probability,
            num_releases=self.spec.training_steps,
        )
        last = GaussianEvent(noise_multiplier=self.spec.noise_multiplier)
        return ComposedEvent(in_turn=(sums, last))

    @property
    def any_rows(self) -> range:
        """See `Mechanism`: as many as memory has room for."""
        return range(1, min(MAX_ROWS, max(1, _MAX_STEP_VALUES // self.spec.num_features)) + 1)

    def setup(self, batches: Iterable[Private[RecordBatch]], noise: NoiseSource) -> Release:
        """Train the autoencoder, then sum the features of all records' codes.

        Returns:
            A block of the weights, in rows of R + 1 values and padded with zeros, and a block
            (K, R + 1): feature sums, then the count times c, all over sqrt(1 + c^2).

        Privacy:
            Each update reads one fresh sample, through one noised sum; the weights are a function
            of such sums and of a public seed. Given them, a record's row of features is a function
            of that record alone and has norm at most 1, so the sums over classes have sensitivity 1
            under add-or-remove-one-unit.

        References:
            [abadi:16], algorithm 1; [harder:21], algorithm 1.
        """
        drawn = iter(batches)
        weights = self._trained(drawn, noise)
        features = self._features(self._weights(release_values(weights)))

        def rows(levels_MP: Tensor) -> Tensor:
            return self._counted.rows(features.record_rows(levels_MP))

        sums = release_class_sums(
            drawn,
            rows,
            num_features=self.spec.num_features + 1,
            num_classes=self.space.num_classes,
            noise_multiplier=self.spec.noise_multiplier,
            noise=noise,
        )
        return join_releases(weights, sums)

    def gradient(self, samples: Samples, released: Release) -> Release:
        """Return the gradient of the class-wise MMD^2 of codes with respect to the images.

        Privacy:
            Post-processing: a function of the release and the samples.
        """

        def rows(values: Tensor) -> Tensor:
            num_classes = self.space.num_classes
            features = self._features(self._weights(values[:-num_classes]))
            means_KR = self._counted.class_means(values[-num_classes:])
            return class_gradients(features, samples.images_ND, samples.labels_N, means_KR)

        return post_process(released, rows)

    def _trained(self, drawn: Iterator[Private[RecordBatch]], noise: NoiseSource) -> Release:
        """Return the mean of the weights after all updates, on their grid and in rows.

        Privacy:
            Reads as many samples as there are updates, each through one noised sum.
        """
        start = initial_autoencoder(self._shape, self.spec.autoencoder_seed)
        vector = CriticVector.start(start.to(compute_device()))
        release = self._noised_sum(vector, next(drawn), noise)
        vector = self._updated(vector, release)
        mean_V = vector.values
        for turn in range(1, self.spec.training_steps):
            release = self._noised_sum(vector, next(drawn), noise)
            vector = self._updated(vector, release)
            kept = min(self.spec.averaging, turn / (turn + _FIRST_TURNS))
            mean_V = kept * mean_V + (1 - kept) * vector.values
        width = self.spec.num_features + 1
        padded = torch.nn.functional.pad(on_grid(mean_V), (0, -len(mean_V) % width))
        return post_process(release, lambda _: padded.reshape(-1, width))

    def _noised_sum(
        self, vector: CriticVector, records: Private[RecordBatch], noise: NoiseSource
    ) -> Release:
        """Return the noised sum of the clipped slopes of a sample.

        Privacy:
            Every vector is a function of its own slot and of released weights.
        """
        device = vector.values.device
        most = _VALUES_AT_ONCE.get(device.type, _VALUES_IN_CACHE)
        at_once = max(1, most // self._shape.num_parameters)

        def slopes(levels_MP: Tensor, labels_M: Tensor) -> Iterator[Sequence[Tensor]]:
            pixels_MP = levels_MP.to(device, torch.float32) * (2 / self.space.max_level) - 1
            for rows in in_chunks(len(labels_M), at_once):
                yield example_slopes(self._shape, vector.values, pixels_MP[rows])

        return release_example_sum(
            records,
            slopes,
            num_classes=self.space.num_classes,
            num_values=self._shape.num_parameters,
            bounds=self.spec.bounds,
            noise=noise,
        )

    def _updated(self, vector: CriticVector, release: Release) -> CriticVector:
        """Return the weights after an update; the sum is divided by a public number.

        Privacy:
            Every argument is released or public.
        """
        slope_V = release_values(release).to(vector.values) / self.spec.expected_batch_size
        return adam_step(vector, slope_V, self.spec.training_learning_rate)

    def _weights(self, values: Tensor) -> Tensor:
        """Return the released weights (V) of their rows."""
        return values.flatten()[: self._shape.num_parameters].to(compute_device(), torch.float32)

    def _features(self, weights_V: Tensor) -> EncoderFeatures:
        """Return the feature map of released weights."""
        encoder = autoencoder_parameters(self._shape, weights_V)
        return EncoderFeatures(
            fourier=self._fourier, encoder=encoder, max_level=self.space.max_level
        )


def autoencoder_shape(spec: DpMerfAeSpec, space: ImageSpace) -> AutoencoderShape:
    """Return the sizes of the autoencoder.

    Raises:
        MalformedRequest: If the run would need absurd amounts of memory or time.

    Privacy:
        Reads the request and public facts only.
    """
    shape = AutoencoderShape(
        dimension=space.dimension, hidden_width=spec.hidden_width, code_width=spec.code_width
    )
    if shape.num_parameters > MAX_VALUES or space.dimension > MAX_PIXELS:
        detail = f"hidden_width: at most {MAX_VALUES} parameters for images of this size"
        raise MalformedRequest(detail)
    try:
        spec.bounds.check_room(shape.num_parameters)
    except ValueError as error:
        detail = f"hidden_width, training_noise_multiplier, max_records_per_unit: {error}"
        raise MalformedRequest(detail) from None
    refuse_beyond(
        {
            "capacity: too many images of this size": (
                spec.capacity * space.dimension,
                _MAX_COORDINATES,
            ),
            "training_steps, capacity, hidden_width: too much work for opening a run": (
                spec.training_steps * spec.capacity * shape.num_parameters,
                _MAX_SETUP_WORK,
            ),
            "num_features: too many for the classes of this data set": (
                _num_released_values(spec, shape, space),
                _MAX_RELEASED_VALUES,
            ),
        }
    )
    return shape


def _num_released_values(spec: DpMerfAeSpec, shape: AutoencoderShape, space: ImageSpace) -> int:
    rows = space.num_classes + shape.num_parameters // (spec.num_features + 1) + 1
    return rows * (spec.num_features + 1)
