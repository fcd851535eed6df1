"""Every target by its name: the published method or one of ours, with sizes that leak the most.

Clip norms are small, so that every gradient reaches its bound. A new mechanism takes an entry in
`_TARGETS` and its name in `audit/__init__.py`.

Where there is one network a shard, one record is to turn its network around. An update shows each
critic one record of its shard, whose place a public number picks; seeds are chosen such that with
the canary in, the canary is picked and the gradient turns around. Adam's steps are so large that
what the first ones see is all that counts.

DP-MERF-AE releases an encoder that was trained, so one part has little noise and the other much.
Its samples are of rate one: at any other rate the same words pick other records from neighbouring
data sets, and noise-free sums cannot be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from safetensors.torch import save

from audit import TARGETS
from audit.canaries import CAPACITY, MAX_RECORDS, NUM_DEBIAS, NUM_SAMPLES, SIDE, Pair
from audit.released import of_embedding, of_statistics, of_training
from audit.target import Target
from curator.administration.add_network import NewNetwork, add_network
from curator.divergences.feature_nets import LARGEST_WEIGHT, FeatureShape
from curator.mechanisms.public_networks import DECLARED, choose_networks
from curator.mechanisms.specification import MAX_ROWS
from curator.privacy.batches import Samples

_NUM_PROJECTIONS = 18  # as many as coordinates, so that a row keeps about its whole length
_NUM_FEATURES = 2  # one frequency: a whole released block shows in the gradients of a few samples
_NUM_SHARDS = 2
_TURNING_SEED = 3  # with it the flip canary turns a critic's gradient around, step after step
_TURNING_SEED_OF_ROUNDS = 54  # the same, where others learn between two steps of a critic
_MUCH_NOISE = 1000.0  # that part says next to nothing, and costs as much
_INSIDE = 0.999  # a row on the sphere has no slope along itself
_ROWS_OF_FEATURES = 8
_NUM_CLASSES = 2
_NETWORK = "constant"

_SAMPLED: Final = {"sampling_rate": 1.0, "capacity": CAPACITY}
_BOUNDED: Final = {"max_size": MAX_RECORDS, "max_records_per_unit": 1}
_SINKHORN: Final = _SAMPLED | {
    "num_samples": NUM_SAMPLES,
    "num_debias": NUM_DEBIAS,
    "clip_norm": 0.01,
    "reg": 5.0,
    "l1_weight": 1.0,
    "label_scale": 1.0,
    "schedule": "published",
}
_CRITICS: Final = {
    "num_critics": _NUM_SHARDS,
    "shard_capacity": CAPACITY,
    "num_samples": 1,
    "clip_norm": 0.01,
    "critic": "mlp",
    "critic_width": 4,
    "critic_seed": _TURNING_SEED,
    "critic_batch": 1,
    "critic_steps": 2,
    "warm_start_steps": 0,
    "critic_learning_rate": 1.0,
    "gradient_penalty": 0.0,
}
_TEACHERS: Final = {
    "num_teachers": _NUM_SHARDS,
    "shard_capacity": CAPACITY,
    "num_samples": 1,
    "teacher": "mlp",
    "teacher_width": 3,
    "teacher_seed": 30,
    "teacher_batch": 1,
    "teacher_steps": 2,
    "warm_start_steps": 0,
    "teacher_learning_rate": 1.0,
    "gradient_penalty": 0.0,
}
_AUTOENCODER: Final = _SAMPLED | _BOUNDED | {
    "expected_batch_size": 1.0,
    "autoencoder": "mlp",
    "hidden_width": 2,
    "code_width": 1,
    "autoencoder_seed": 1,
    "clip_norm": 1e-6,
    "training_learning_rate": 1.0,
    "averaging": 0.5,
    "num_features": 2,
    "bandwidths": [1.0],
    "feature_seed": 1,
    "count_scale": 0.1,
}  # fmt: skip


def make_target(name: str, noise_multiplier: float) -> Target:
    """Return one target.

    Args:
        name: One of `TARGETS`.
        noise_multiplier: Noise standard deviation over sensitivity.

    Raises:
        ValueError: If there is no such target.
    """
    if name not in _TARGETS:
        msg = f"mechanism: expected one of {', '.join(TARGETS)}"
        raise ValueError(msg)
    return _TARGETS[name](name, noise_multiplier)


def _of(
    *tables: Mapping[str, Any], mechanism: str | None = None, **how: Any
) -> Callable[[str, float], Target]:
    """Return what makes a target of parameters, `noise_multiplier` among them."""

    def make(name: str, noise_multiplier: float) -> Target:
        parameters: dict[str, object] = {"noise_multiplier": noise_multiplier}
        for table in tables:
            parameters |= table
        return Target(name=name, mechanism=mechanism or name, parameters=parameters, **how)

    return make


def _trained_autoencoder(name: str, noise_multiplier: float) -> Target:
    """Return DP-MERF-AE with one update, whose slopes are too small for Adam to hide their size."""
    own = {
        "training_noise_multiplier": noise_multiplier,
        "training_steps": 1,
        "noise_multiplier": _MUCH_NOISE,
        # noised slopes are a third of the epsilon
        "expected_batch_size": min(300.0 * noise_multiplier, MAX_ROWS),
    }
    make = _of(_AUTOENCODER, own, mechanism="dp-merf-ae", statistic=of_training)
    return make(name, noise_multiplier)


def _statistics(name: str, noise_multiplier: float) -> Target:
    """Return statistics of a network of one feature, which every image has in full."""
    own = {
        "network": _NETWORK,
        "network_sha256": _offer_network(),
        "network_declared": DECLARED,
        "architecture": "mlp-features",
        "num_features": 1,
        "stages": [],
        "cells": 1,
        "enlarged": 1,
        "count_scale": 1e-3,
        "refinements": [],
        "radius_scale": 1.0,
        "moments": "together",
        "moment_width": 1,
        "moment_noise_multiplier": _MUCH_NOISE,
        "moment_seed": 1,
    }
    return _of(_BOUNDED, own, statistic=of_statistics)(name, noise_multiplier)


@cache
def _network_folder() -> TemporaryDirectory[str]:
    """Return a folder that is there until the process ends."""
    return TemporaryDirectory(prefix="weir-audit-networks-")


def _offer_network() -> str:
    """Choose a folder with a network whose one output is 1, whatever comes in.

    Returns:
        The digest of its file.
    """
    folder = Path(_network_folder().name)
    weights = {name: torch.zeros(size) for name, size in _mlp(1).sizes.items()}
    weights["features.bias"] += 1
    source = folder / "weights"
    source.write_bytes(save(weights))
    new = NewNetwork(name=_NETWORK, architecture="mlp-features", origin="made for the audit")
    card, _ = add_network(folder, new, source)
    choose_networks(folder)
    return card.sha256


def _mlp(num_outputs: int) -> FeatureShape:
    """Return the sizes of a small network on images of the canaries' size."""
    return FeatureShape(
        architecture="mlp-features",
        channels=1,
        height=SIDE,
        width=SIDE,
        max_level=255,
        num_features=num_outputs,
    )


def _weights_and_features(pair: Pair, num_rows: int | None) -> Samples:
    """Return what is sent to a mechanism on features: an extractor of one feature, made to tell.

    The feature is a large multiple of an image's mean: every dark image lies at one end of the
    ball, every light one at the other, and no record is at zero. One public image is at the light
    end and all others are at the dark one, so that its gradient says how far the largest projection
    lies. Every canary is attacked alike.
    """
    del pair
    shape = _mlp(1)
    weights = {name: torch.zeros(size) for name, size in shape.sizes.items()}
    for unit, sign in enumerate((1.0, -1.0)):
        weights["hidden.weight"][unit] = sign * LARGEST_WEIGHT
        weights["features.weight"][0, unit] = sign * LARGEST_WEIGHT
    features = torch.full((num_rows or _ROWS_OF_FEATURES, 1), -_INSIDE)
    features[0] = _INSIDE
    labels = torch.zeros(len(features), dtype=torch.int64)
    return Samples(images_ND=features, labels_N=labels, weights=save(weights))


def _map_of_zeros(pair: Pair, num_rows: int | None) -> Samples:
    """Return a linear map of pixels that calls every class as likely."""
    del pair
    zeros = torch.zeros((num_rows or 1, SIDE * SIDE + 1))
    labels = torch.zeros(len(zeros), dtype=torch.int64)
    return Samples(images_ND=zeros, labels_N=labels, weights=save({}))


def _network_of_zeros(pair: Pair, num_rows: int | None) -> Samples:
    """Return a classifier that calls every record the first class, which all canaries have."""
    del pair
    shape = _mlp(_NUM_CLASSES)
    weights = save({name: torch.zeros(size) for name, size in shape.sizes.items()})
    labels = torch.zeros(num_rows or 1, dtype=torch.int64)
    return Samples(images_ND=torch.zeros(len(labels), 1), labels_N=labels, weights=weights)


def _dark_and_light(pair: Pair, num_rows: int | None) -> Samples:
    """Return two candidates of the first class, black and white."""
    del pair
    images = torch.ones((num_rows or 2, SIDE * SIDE))
    images[0] = -1.0
    return Samples(images_ND=images, labels_N=torch.zeros(len(images), dtype=torch.int64))


_TARGETS: Final[Mapping[str, Callable[[str, float], Target]]] = {
    # extractors have learnt once
    "adversarial-dp-sinkhorn": _of(
        {"num_extractors": _NUM_SHARDS, "shard_capacity": CAPACITY, "num_samples": 2},
        {"num_debias": 1, "clip_norm": 0.01, "reg": 5.0, "label_scale": 1.0, "feature_scale": 0.1},
        {"extractor": "mlp", "extractor_width": 4, "extractor_seed": 7, "extractor_steps": 1},
        {"extractor_learning_rate": 0.01},
        parts="num_extractors",
    ),
    # generated rows weigh next to nothing, so that Adam's first step is the sign of the sum
    "dp-cgan": _of(
        _SAMPLED,
        _BOUNDED,
        {"expected_batch_size": 0.01, "num_samples": NUM_SAMPLES, "num_fakes": 1},
        {"clip_norm": 0.01, "critic": "mlp", "critic_width": 2, "critic_seed": 1},
        {"critic_steps": 1, "critic_learning_rate": 0.01},
        score="discriminant",
    ),
    # the encoder is all noise, and another one in each run
    "dp-merf-ae": _of(
        _AUTOENCODER,
        {"training_noise_multiplier": _MUCH_NOISE, "training_steps": 2},
        statistic=of_embedding,
    ),
    "dp-merf-ae-training": _trained_autoencoder,
    "dp-sinkhorn": _of(_SINKHORN),
    "dp-sinkhorn-half": _of(_SINKHORN, {"sampling_rate": 0.5}, mechanism="dp-sinkhorn"),
    # the clip norm is the norm of black and white; a clipped sample has no slope along itself
    "dp-swd": _of(
        _SAMPLED,
        _BOUNDED,
        {"num_samples": NUM_SAMPLES + NUM_DEBIAS, "num_projections": _NUM_PROJECTIONS},
        {"clip_norm": 4.0, "label_scale": 0.0, "origin": "grey"},
        score="mean-difference",
    ),
    # one feature on one direction: nothing is averaged out, and its noise is a Gaussian's
    "dp-swd-features": _of(
        _SAMPLED,
        _BOUNDED,
        {"num_samples": 1, "num_projections": 1, "architecture": "mlp-features"},
        {"num_features": 1, "clip_norm": 1.0},
        score="discriminant",
        sends=_weights_and_features,
    ),
    "feature-statistics": _statistics,
    "g-pate": _of(
        _TEACHERS,
        {"teacher_seed": 40, "aggregation": "mean", "num_projections": 4, "num_bins": 0},
        {"projection_seed": 1, "clip_norm": 0.01},
        parts="num_teachers",
    ),
    # one question, of which the analyst learns the winner alone
    "g-pate-votes": _of(
        _TEACHERS,
        {"aggregation": "votes", "num_projections": 1, "num_bins": 2},
        {"projection_seed": 1, "clip_norm": 0.01},
        mechanism="g-pate",
        parts="num_teachers",
        score="discriminant",
    ),
    # all critics are updated in the one step of a trial
    "gs-wgan-decoupled": _of(_CRITICS, {"critics_per_step": _NUM_SHARDS}, parts="num_critics"),
    "gs-wgan-mean": _of(_CRITICS, num_steps=2, parts="num_critics"),
    # until the first critic has answered twice
    "gs-wgan-round-robin": _of(
        _CRITICS,
        {"critic_seed": _TURNING_SEED_OF_ROUNDS},
        num_steps=_NUM_SHARDS + 1,
        parts="num_critics",
    ),
    # a map of zeros is wrong about every record, whose gradient reaches its bound
    "linear-teacher": _of(
        _BOUNDED,
        {"asks": "gradient", "features": "pixels", "num_features": 0, "bias": 0.5},
        {"clip_norm": 0.1},
        sends=_map_of_zeros,
    ),
    "mean-embedding": _of(
        {"num_features": _NUM_FEATURES, "bandwidths": [2.0], "feature_seed": 1, "count_scale": 0.1},
    ),
    # one question a step, whose student passes the count on as it is
    "pate-gan": _of(
        _TEACHERS,
        {"num_teachers": 4, "num_labelled": 1, "labels": "relative", "reach": 0.5},
        {"student": "mlp", "student_width": 3, "student_seed": 1, "student_batch": 1},
        {"student_steps": 1, "student_learning_rate": 1e-6, "pool_steps": 1, "residual": 10.0},
        parts="num_teachers",
    ),
    # every record is right, so that one more is always one more
    "score": _of(
        _BOUNDED,
        {"architecture": "mlp-features", "counts": "total"},
        sends=_network_of_zeros,
    ),
    # all canaries are of one class, and of two candidates one is nearer to what is light
    "votes": _of(
        _BOUNDED,
        {"num_candidates": 2, "images_per_candidate": 1, "features": "pixels"},
        sends=_dark_and_light,
    ),
}
