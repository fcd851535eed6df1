"""Mean embedding (DP-MERF): one noised release of class-wise feature sums, then free gradients.

Statement and proof: mean_embedding.md. After `setup` nothing here can reach a record.

Shape legend: N samples, K classes, 2F random features, D pixels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.divergences.embedding_loss import class_gradients
from curator.mechanisms.counted_features import CountedFeatures
from curator.mechanisms.mean_embedding_spec import MeanEmbeddingSpec, feature_map
from curator.mechanisms.specification import MAX_ROWS, check_rows
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import ImageSpace, RecordBatch, Samples
from curator.privacy.release import Release
from curator.sanitizer.post_process import post_process
from curator.sanitizer.summed import release_class_sums

_MAX_STEP_VALUES = 1 << 24  # features, or maps, of all rows of a step: 64 MiB in float32
_MAPS_PER_PIXEL = 16  # of the largest tensor of a scattering


@final
class MeanEmbedding:
    """Releases class-wise sums of [phi(x), c] / sqrt(1 + c^2) once, then answers from them.

    References:
        [harder:21], algorithm 1; [rahimi:07].
    """

    def __init__(self, spec: MeanEmbeddingSpec, space: ImageSpace) -> None:
        """Draw the public frequencies.

        Args:
            spec: Parameters of the run.
            space: Public image space of the data set.

        Raises:
            MalformedRequest: If the features are too many for images of this size.
        """
        self.spec = spec
        self._space = space
        self._features = feature_map(spec, space)
        self._counted = CountedFeatures(
            count_scale=spec.count_scale, noise_multiplier=spec.noise_multiplier
        )

    @property
    def noise_multiplier(self) -> float:
        """See `Mechanism`."""
        return self.spec.noise_multiplier

    @property
    def rows_per_step(self) -> None:
        """Any number of rows will do."""
        return

    def setup_event(self) -> PrivacyEvent:
        """Return the cost of the one release.

        Privacy:
            A Gaussian release of a sum of sensitivity 1 under add-or-remove-one-unit.
        """
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier)

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
        values = self.spec.width
        if self.spec.num_scattering_features:
            values = max(values, _MAPS_PER_PIXEL * self._space.dimension)
        most = min(MAX_ROWS, max(1, _MAX_STEP_VALUES // values))
        check_rows(samples, self._space, range(1, most + 1))

    def setup(self, batches: Iterable[Private[RecordBatch]], noise: NoiseSource) -> Release:
        """Return the noised class-wise sums of feature rows.

        Args:
            batches: Every record once, all batches of one padded shape, no unit split.
            noise: Secret randomness.

        Returns:
            One block (K, 2F + 1): feature sums, then the count times c, all over sqrt(1 + c^2).

        Privacy:
            A record's row is a function of that record alone and has norm at most 1; the rows of a
            unit are bounded together: sensitivity 1 under add-or-remove-one-unit.

        References:
            [harder:21], algorithm 1 (sums and counts in place of means).
        """
        return release_class_sums(
            batches,
            self._record_rows,
            num_features=self.spec.width + 1,
            num_classes=self._space.num_classes,
            noise_multiplier=self.spec.noise_multiplier,
            noise=noise,
        )

    def gradient(self, samples: Samples, released: Release) -> Release:
        """Return the gradient of the class-wise MMD^2 with respect to the images.

        Args:
            samples: Rows that passed `check_samples`.
            released: What `setup` returned.

        Returns:
            One row per sample.

        Privacy:
            Post-processing: a function of the release and the samples.
        """

        def rows(values: Tensor) -> Tensor:
            return class_gradients(
                self._features,
                samples.images_ND,
                samples.labels_N,
                self._counted.class_means(values),
            )

        return post_process(released, rows)

    def _record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return [phi(x), c] / sqrt(1 + c^2) for each record.

        Privacy:
            Row i depends on record i only, bit for bit, and has norm at most 1.
        """
        return self._counted.rows(self._features.record_rows(levels_MD))
