"""What a whole release says of the extra record: the logarithm of a likelihood ratio, no less.

DP-MERF-AE hands out an encoder, another one in each run, and noised sums of its codes' features.
Whoever knows the canary computes its row under the encoder that was released. The encoder's weights
come from noised sums of gradients, which can be had back: slopes below Adam's epsilon leave its
first step with their size, not their sign alone, so that one update is a function with an inverse.
Statistics of public features hand out sums of known rows.

Shape legend: N records, V parameters, R features.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from audit.canaries import Pair, audit_facts
from audit.target import Statistic
from curator.divergences.autoencoder import (
    LARGEST_CODE,
    EncoderFeatures,
    autoencoder_parameters,
    example_slopes,
    initial_autoencoder,
)
from curator.divergences.feature_maps import NetworkFeatures
from curator.divergences.random_features import fourier_features
from curator.mechanisms.dp_merf_ae import DpMerfAeSpec, autoencoder_shape
from curator.mechanisms.feature_statistics import FeatureStatisticsSpec, features_of
from curator.mechanisms.public_networks import read_network

_ADAM_EPSILON = 1e-8
_SPACE = audit_facts("audit").space
_LARGEST_STEP = 1 - 2.0**-12  # the grid of the weights


def of_embedding(parameters: Mapping[str, object], pair: Pair) -> Statistic:
    """Return what the sums of features say, given the encoder that they were made with."""
    spec = DpMerfAeSpec.model_validate(parameters)
    shape = autoencoder_shape(spec, _SPACE)
    fourier = fourier_features(
        dimension=spec.code_width,
        largest_input=LARGEST_CODE,
        num_features=spec.num_features,
        bandwidths=tuple(spec.bandwidths),
        seed=spec.feature_seed,
    )
    levels_NP = _levels(pair)

    def score(values: npt.NDArray[np.float64]) -> float:
        released = torch.from_numpy(values)
        weights_V = released[: shape.num_parameters].to(torch.float32)
        features = EncoderFeatures(
            fourier=fourier,
            encoder=autoencoder_parameters(shape, weights_V),
            max_level=_SPACE.max_level,
        )
        rows_NR = features.record_rows(levels_NP).cpu()
        counts_N = rows_NR.new_full((len(rows_NR), 1), spec.count_scale)
        rows_NR = torch.cat((rows_NR, counts_N), dim=1) / (1 + spec.count_scale**2) ** 0.5
        sums_R = released.reshape(-1, rows_NR.shape[1])[-_SPACE.num_classes]  # of the first class
        return _log_likelihood_ratio(rows_NR, sums_R, spec.noise_multiplier)

    return score


def of_training(parameters: Mapping[str, object], pair: Pair) -> Statistic:
    """Return what the weights say after one update, at rate one."""
    spec = DpMerfAeSpec.model_validate(parameters)
    shape = autoencoder_shape(spec, _SPACE)
    start_V = initial_autoencoder(shape, spec.autoencoder_seed)
    pixels_NP = _levels(pair).to(torch.float32) * (2 / _SPACE.max_level) - 1
    slopes_NV = torch.cat(example_slopes(shape, start_V, pixels_NP), dim=1).to(torch.float64)
    norms_N1 = slopes_NV.norm(dim=1, keepdim=True)
    clipped_NV = slopes_NV * (spec.clip_norm / norms_N1.clamp_min(spec.clip_norm))

    def score(values: npt.NDArray[np.float64]) -> float:
        after_V = torch.from_numpy(values[: shape.num_parameters])
        slope_V = slope_of_first_step(start_V, after_V, spec.training_learning_rate)
        sum_V = slope_V * spec.expected_batch_size
        noise_std = spec.training_noise_multiplier * spec.clip_norm
        return _log_likelihood_ratio(clipped_NV, sum_V, noise_std)

    return score


def of_statistics(parameters: Mapping[str, object], pair: Pair) -> Statistic:
    """Return what the first sums say; the second moments are all noise."""
    spec = FeatureStatisticsSpec.model_validate(parameters)
    shape = features_of(spec, _SPACE)
    weights = read_network(spec.network, spec.network_sha256, spec.architecture, shape.sizes)
    features = NetworkFeatures(shape=shape, weights=weights)
    shrink = (1 + spec.count_scale**2) ** -0.5
    rows_NR = features.record_rows(_levels(pair)).cpu() * shrink

    def score(values: npt.NDArray[np.float64]) -> float:
        released = torch.from_numpy(values).reshape(-1, features.num_features + 1)
        sums_R = released[-_SPACE.num_classes, :-1]  # of the first class
        return _log_likelihood_ratio(rows_NR, sums_R, spec.noise_multiplier)

    return score


def slope_of_first_step(start_V: Tensor, after_V: Tensor, learning_rate: float) -> Tensor:
    """Return the slope of which Adam's first step, x / (|x| + epsilon), was made."""
    step_V = (start_V.to(torch.float64) - after_V) / learning_rate
    step_V = step_V.clamp(-_LARGEST_STEP, _LARGEST_STEP)
    return _ADAM_EPSILON * step_V / (1 - step_V.abs())


def _levels(pair: Pair) -> Tensor:
    """Return the pixels of all records, the extra one last."""
    return torch.from_numpy(pair.both.levels.reshape(len(pair.both.labels), -1))


def _log_likelihood_ratio(vectors_NV: Tensor, noised_V: Tensor, noise_std: float) -> float:
    """Return log p(noised | all vectors) / p(noised | all but the last), under Gaussian noise."""
    last_V = vectors_NV[-1]
    middle_V = vectors_NV[:-1].sum(dim=0) + last_V / 2
    return float(last_V @ (noised_V - middle_V)) / noise_std**2
