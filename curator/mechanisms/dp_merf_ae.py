"""Mean embedding of codes (DP-MERF-AE): an autoencoder by DP-SGD, then one release of its codes.

Statement and proof: dp_merf_ae.md. Both are made while the run opens; after `setup` nothing here
can reach a record.

Shape legend: N samples, M slots, P pixels, K classes, R features, V parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

import torch
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.composed import ComposedEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_sum import SampledSumEvent
from curator.accounting.overflow import overflow_probability
from curator.divergences.autoencoder import (
    autoencoder_parameters,
    example_slopes,
    initial_autoencoder,
    on_grid,
)
from curator.divergences.device import compute_device
from curator.divergences.dp_critic import in_chunks
from curator.divergences.dp_critic_adam import CriticVector, adam_step
from curator.divergences.embedding_loss import class_gradients
from curator.divergences.encoder_features import LARGEST_CODE, EncoderFeatures
from curator.divergences.random_features import fourier_features
from curator.mechanisms.counted_features import CountedFeatures
from curator.mechanisms.dp_merf_ae_spec import DpMerfAeSpec, autoencoder_shape
from curator.mechanisms.specification import MAX_ROWS, check_rows
from curator.privacy.event import SamplingRate
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import ImageSpace, RecordBatch, Samples
from curator.privacy.release import Release
from curator.sanitizer.example_sum import release_example_sum
from curator.sanitizer.post_process import join_releases, post_process, release_values
from curator.sanitizer.summed import release_class_sums

_VALUES_AT_ONCE: Final = {"cuda": 1 << 27}  # so many slopes are in memory at a time
_VALUES_IN_CACHE: Final = 1 << 22
_MAX_STEP_VALUES: Final = 1 << 24  # features of all rows of a step: 64 MiB in float32
_FIRST_TURNS: Final = 10  # the running mean forgets the first weights fast


@final
class DpMerfAe:
    """Trains an autoencoder, releases it with class-wise sums of its codes' features, then rests.

    References:
        [harder:21], and its variant with an autoencoder in [chen:20], appendix.
    """

    def __init__(self, spec: DpMerfAeSpec, space: ImageSpace) -> None:
        """Draw the public frequencies.

        Args:
            spec: Parameters of the run.
            space: Public image space of the data set.

        Raises:
            MalformedRequest: If the run would need absurd amounts of memory or time.
        """
        self.spec = spec
        self.training_rate = SamplingRate.at_least(spec.sampling_rate)
        self.training_capacity = spec.capacity
        self.num_training_samples = spec.training_steps
        self.training_noise_multiplier = spec.training_noise_multiplier
        self._space = space
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
    def noise_multiplier(self) -> float:
        """That of the embedding; the sums of the training have one of their own."""
        return self.spec.noise_multiplier

    @property
    def rows_per_step(self) -> None:
        """Any number of rows will do."""
        return

    def setup_event(self) -> PrivacyEvent:
        """Return the cost of everything that is released.

        Privacy:
            As many noised sums over fresh Poisson samples as the training has steps, then a
            Gaussian release of a sum of sensitivity 1 under add-or-remove-one-unit, whose rows are
            functions of a record and of the sums before it.
        """
        overflow = overflow_probability(
            self.spec.max_size, self.training_rate, self.spec.max_units_per_sample
        )
        sums = SampledSumEvent(
            sampling_rate=self.training_rate,
            noise_multiplier=self.spec.training_noise_multiplier,
            overflow_probability=overflow,
            num_releases=self.spec.training_steps,
        )
        last = GaussianEvent(noise_multiplier=self.spec.noise_multiplier)
        return ComposedEvent(in_turn=(sums, last))

    def step_event(self) -> PrivacyEvent:
        """Return the cost of one gradient: none.

        Privacy:
            Post-processing of the release.
        """
        return NoEvent()

    def check_samples(self, samples: Samples) -> None:
        """Refuse samples that do not fit the image space.

        Raises:
            MalformedRequest: If there is no row, absurdly many, or a wrong size or label.

        Privacy:
            Reads the request and public facts only.
        """
        most = min(MAX_ROWS, max(1, _MAX_STEP_VALUES // self.spec.num_features))
        check_rows(samples, self._space, range(1, most + 1))

    def setup(self, batches: Iterable[Private[RecordBatch]], noise: NoiseSource) -> Release:
        """Train the autoencoder, then sum the features of all records' codes.

        Args:
            batches: `num_training_samples` fresh Poisson samples, and after them every record once,
                all batches of one padded shape, no unit split.
            noise: Secret randomness.

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
            num_classes=self._space.num_classes,
            noise_multiplier=self.spec.noise_multiplier,
            noise=noise,
        )
        return join_releases(weights, sums)

    def gradient(self, samples: Samples, released: Release) -> Release:
        """Return the gradient of the class-wise MMD^2 of codes with respect to the images.

        Args:
            samples: Rows that passed `check_samples`.
            released: What `setup` returned.

        Returns:
            One row per sample.

        Privacy:
            Post-processing: a function of the release and the samples.
        """

        def rows(values: Tensor) -> Tensor:
            num_classes = self._space.num_classes
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
            pixels_MP = levels_MP.to(device, torch.float32) * (2 / self._space.max_level) - 1
            for rows in in_chunks(len(labels_M), at_once):
                yield example_slopes(self._shape, vector.values, pixels_MP[rows])

        return release_example_sum(
            records,
            slopes,
            num_classes=self._space.num_classes,
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
            fourier=self._fourier, encoder=encoder, max_level=self._space.max_level
        )
