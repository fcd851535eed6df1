"""Mean embedding (DP-MERF): one noised release of class-wise feature sums, then free gradients.

Statement and proof: mean_embedding.md. After `setup` nothing here can reach a record.

Shape legend: N samples, K classes, 2F random features, D pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Self, final

import torch
from pydantic import Field, model_validator
from torch import Tensor

from curator.divergences.embedding_loss import class_gradients
from curator.divergences.random_features import fourier_features
from curator.errors import MalformedRequest
from curator.mechanisms.specification import MAX_ROWS, NoiseMultiplier, Specification, check_rows
from curator.privacy.event import GaussianEvent, NoEvent, PrivacyEvent
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.records import ImageSpace, RecordBatch, Samples
from curator.privacy.release import Release
from curator.sanitizer.post_process import post_process
from curator.sanitizer.summed import release_class_sums

_MAX_FREQUENCY_VALUES = 1 << 24
_MAX_RELEASED_VALUES = 1 << 22
_MAX_STEP_FEATURES = 1 << 23  # rows of a step times features: 64 MiB in float64
_MIN_COUNT_IN_STDS = 2.0


class MeanEmbeddingSpec(Specification):
    """Public parameters of one mean-embedding run.

    `num_features` is shared equally among `bandwidths` (pixel units, pixels in [-1, 1]);
    `count_scale` is the constant c stacked below the features so that counts are noised too.
    """

    num_features: Annotated[int, Field(ge=2, le=MAX_ROWS)]
    bandwidths: Annotated[
        list[Annotated[float, Field(ge=1e-2, le=1e4)]], Field(min_length=1, max_length=32)
    ]
    feature_seed: Annotated[int, Field(ge=0, lt=2**63)]
    noise_multiplier: NoiseMultiplier
    count_scale: Annotated[float, Field(ge=1e-3, le=10)]

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.num_features % (2 * len(self.bandwidths)):
            msg = "num_features must be a multiple of twice the number of bandwidths"
            raise ValueError(msg)
        return self


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
        if spec.num_features * space.dimension > _MAX_FREQUENCY_VALUES or (
            (spec.num_features + 1) * space.num_classes > _MAX_RELEASED_VALUES
        ):
            detail = "num_features: too many for images and classes of this data set"
            raise MalformedRequest(detail)
        self.spec = spec
        self._space = space
        self._features = fourier_features(
            dimension=space.dimension,
            max_level=space.max_level,
            num_features=spec.num_features,
            bandwidths=tuple(spec.bandwidths),
            seed=spec.feature_seed,
        )
        self._shrink = 1 / math.sqrt(1 + spec.count_scale**2)
        self._count_value = spec.count_scale * self._shrink * (1 - 2.0**-40)

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
        most = min(MAX_ROWS, max(1, _MAX_STEP_FEATURES // self.spec.num_features))
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
            num_features=self.spec.num_features + 1,
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
                self._features, samples.images_ND, samples.labels_N, self._class_means(values)
            )

        return post_process(released, rows)

    def _class_means(self, values_KR: Tensor) -> Tensor:
        """Return noisy mean embeddings, the noisy counts floored at a public minimum.

        Privacy:
            Reads released values only.
        """
        noise_std = self.spec.noise_multiplier / self._count_value
        counts_K = values_KR[:, -1:] / self._count_value
        floor = max(1.0, _MIN_COUNT_IN_STDS * noise_std)
        return values_KR[:, :-1] / (self._shrink * counts_K.clamp_min(floor))

    def _record_rows(self, levels_MD: Tensor) -> Tensor:
        """Return [phi(x), c] / sqrt(1 + c^2) for each record.

        Privacy:
            Row i depends on record i only, bit for bit, and has norm at most 1.
        """
        rows = self._features.record_rows(levels_MD) * self._shrink
        counts = rows.new_full((rows.shape[0], 1), self._count_value)
        return torch.cat((rows, counts), dim=1)
