"""Mean embedding (DP-MERF): one noised release of class-wise feature sums, then free gradients.

Statement and proof: mean_embedding.md. After `setup` nothing here can reach a record.

Shape legend: N samples, K classes, 2F random features, D pixels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self, final

from pydantic import Field, model_validator
from torch import Tensor

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.divergences.feature_maps import (
    FeatureMap,
    MixedFeatures,
    PixelFeatures,
    ScatteringFeatures,
    class_gradients,
)
from curator.divergences.orthogonal_frequencies import num_signs
from curator.divergences.random_features import (
    fourier_features,
    orthogonal_features,
)
from curator.divergences.scattering import LARGEST_COEFFICIENT, Scattering
from curator.errors import MalformedRequest
from curator.mechanisms.base import ReleasedOnceMechanism
from curator.mechanisms.counted_features import CountedFeatures
from curator.mechanisms.specification import (
    MAX_ROWS,
    Specification,
)
from curator.mechanisms.state_size import rows_bytes
from curator.privacy.batches import ImageSpace, RecordBatch, Samples
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.privacy.release import Release
from curator.sanitizer.post_process import post_process
from curator.sanitizer.summed import release_class_sums

_MAX_STEP_VALUES = 1 << 24  # features, or maps, of all rows of a step: 64 MiB in float32
_MAPS_PER_PIXEL = 16  # of the largest tensor of a scattering
_MAX_FREQUENCY_VALUES = 1 << 26  # 256 MiB in float32
_MAX_RELEASED_VALUES = 1 << 22
_MAX_COEFFICIENTS = 1 << 17  # sums with frequencies stay exact
_MAX_ORTHOGONAL_PIXELS = 1 << 18  # the same
_LARGEST_LEVEL = 2.0**16  # above every |2 v - max_level|
_SCATTERING_STREAM = 32  # after those of the pixels: their bandwidths are at most as many

Bandwidths = Annotated[list[Annotated[float, Field(ge=1e-2, le=1e4)]], Field(max_length=32)]
NumFeatures = Annotated[int, Field(ge=0, le=MAX_ROWS)]


class MeanEmbeddingSpec(Specification):
    """Public parameters of one mean-embedding run.

    A `feature_map` with `sorf` in its name has structured orthogonal frequencies in the place of
    Gaussian ones: the same kernel from products that take a fraction of the time.
    `num_features` are shared equally among `bandwidths` (pixels in [-1, 1]) and
    `num_scattering_features` among `scattering_bandwidths` (units of scattering coefficients of
    pixels in [0, 1]); each map of `feature_map` has some, and no other. `scattering_share` is the
    part of the squared norm that scattering has in `mix`. `count_scale` is the constant c stacked
    below the features so that counts are noised too.
    """

    feature_map: Literal["rff", "scattering-rff", "mix", "sorf", "scattering-sorf", "mix-sorf"] = (
        "rff"
    )
    num_features: NumFeatures
    bandwidths: Bandwidths
    num_scattering_features: NumFeatures = 0
    scattering_bandwidths: Bandwidths = Field(default_factory=list)
    scattering_share: Annotated[float, Field(ge=0.01, le=0.99)] = 0.6
    feature_seed: Annotated[int, Field(ge=0, lt=2**63)]
    count_scale: Annotated[float, Field(ge=1e-3, le=10)]

    @property
    def are_orthogonal(self) -> bool:
        """Whether frequencies are structured orthogonal ones."""
        return self.feature_map.endswith("sorf")

    @property
    def width(self) -> int:
        """Number of features of the map."""
        return self.num_features + self.num_scattering_features

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        is_of_scattering = self.feature_map.startswith("scattering")
        pixels = (not is_of_scattering, "", self.num_features, self.bandwidths)
        scattering = (
            is_of_scattering or self.feature_map.startswith("mix"),
            "scattering_",
            self.num_scattering_features,
            self.scattering_bandwidths,
        )
        for used, prefix, num_features, bandwidths in (pixels, scattering):
            names = f"num_{prefix}features and {prefix}bandwidths"
            if used != (num_features > 0) or used != (len(bandwidths) > 0):
                msg = f"{names} must be given for the maps that use them, and be 0 and [] otherwise"
                raise ValueError(msg)
            if used and num_features % (2 * len(bandwidths)):
                msg = f"num_{prefix}features must be a multiple of twice the number of bandwidths"
                raise ValueError(msg)
        if self.width > MAX_ROWS:
            msg = f"at most {MAX_ROWS} features together"
            raise ValueError(msg)
        return self

    def kept_bytes(self, space: ImageSpace) -> int:
        """Return the bytes of the public frequencies, and of the release."""
        frequencies = _num_frequency_values(self, space) + self.width  # and bandwidths
        return rows_bytes(1, frequencies + 2 * (self.width + 1) * space.num_classes)


@final
class MeanEmbedding(ReleasedOnceMechanism):
    """Releases class-wise sums of [phi(x), c] / sqrt(1 + c^2) once, then answers from them.

    References:
        [harder:21], algorithm 1; [rahimi:07].
    """

    name = "mean-embedding"
    specification = MeanEmbeddingSpec
    sensitivity = "sums of one row of norm at most 1 per unit, so they move by at most 1"
    spec: MeanEmbeddingSpec

    def __init__(self, spec: MeanEmbeddingSpec, space: ImageSpace) -> None:
        """Draw the public frequencies."""
        super().__init__(spec, space)
        self._features = feature_map(spec, space)
        self._counted = CountedFeatures(
            count_scale=spec.count_scale, noise_multiplier=spec.noise_multiplier
        )

    def setup_event(self) -> PrivacyEvent:
        """Return the cost of the one release.

        Privacy:
            A Gaussian release of a sum of sensitivity 1 under add-or-remove-one-unit.
        """
        return GaussianEvent(noise_multiplier=self.spec.noise_multiplier)

    @property
    def any_rows(self) -> range:
        """See `Mechanism`: as many as memory has room for."""
        values = self.spec.width
        if self.spec.num_scattering_features:
            values = max(values, _MAPS_PER_PIXEL * self.space.dimension)
        return range(1, min(MAX_ROWS, max(1, _MAX_STEP_VALUES // values)) + 1)

    def setup(self, batches: Iterable[Private[RecordBatch]], noise: NoiseSource) -> Release:
        """Return the noised class-wise sums of feature rows.

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
            num_classes=self.space.num_classes,
            noise_multiplier=self.spec.noise_multiplier,
            noise=noise,
        )

    def gradient(self, samples: Samples, released: Release) -> Release:
        """Return the gradient of the class-wise MMD^2 with respect to the images.

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


def feature_map(spec: MeanEmbeddingSpec, space: ImageSpace) -> FeatureMap:
    """Build the map of a specification.

    Raises:
        MalformedRequest: If the features are too many for images of this size.

    Privacy:
        Reads the request and public facts only.
    """
    scattering = _scattering(space)
    if (
        _num_frequency_values(spec, space) > _MAX_FREQUENCY_VALUES
        or (spec.width + 1) * space.num_classes > _MAX_RELEASED_VALUES
        or (spec.num_scattering_features and scattering.num_coefficients > _MAX_COEFFICIENTS)
        or (spec.are_orthogonal and space.dimension > _MAX_ORTHOGONAL_PIXELS)
    ):
        detail = "num_features: too many for images and classes of this data set"
        raise MalformedRequest(detail)
    draw = orthogonal_features if spec.are_orthogonal else fourier_features
    parts: list[FeatureMap] = []
    if spec.num_scattering_features:
        fourier = draw(
            dimension=scattering.num_coefficients,
            largest_input=LARGEST_COEFFICIENT,
            num_features=spec.num_scattering_features,
            bandwidths=tuple(spec.scattering_bandwidths),
            seed=spec.feature_seed,
            first_stream=_SCATTERING_STREAM,
        )
        parts.append(
            ScatteringFeatures(fourier=fourier, scattering=scattering, max_level=space.max_level)
        )
    if spec.num_features:
        fourier = draw(
            dimension=space.dimension,
            largest_input=_LARGEST_LEVEL,
            num_features=spec.num_features,
            bandwidths=tuple(spec.bandwidths),
            seed=spec.feature_seed,
        )
        parts.append(PixelFeatures(fourier=fourier, max_level=space.max_level))
    if len(parts) == 1:
        return parts[0]
    return MixedFeatures(first=parts[0], second=parts[1], share=spec.scattering_share)


def _scattering(space: ImageSpace) -> Scattering:
    return Scattering(channels=space.channels, height=space.height, width=space.width)


def _num_frequency_values(spec: MeanEmbeddingSpec, space: ImageSpace) -> int:
    pairs = (
        (spec.num_features // 2, space.dimension),
        (spec.num_scattering_features // 2, _scattering(space).num_coefficients),
    )
    if spec.are_orthogonal:
        return sum(num_signs(number, dimension) for number, dimension in pairs)
    return sum(number * dimension for number, dimension in pairs)
