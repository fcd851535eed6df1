"""Every target by its name: the published method or one of ours, with sizes that leak the most.

Clip norms are small, so that every gradient reaches its bound. A new mechanism takes a function
here or in a file like `shard_targets.py`, a line in `_MAKERS` and its name in `names.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from curator.audit.autoencoder_targets import embedding_of_codes, trained_autoencoder
from curator.audit.canaries import CAPACITY, MAX_RECORDS, NUM_DEBIAS, NUM_SAMPLES
from curator.audit.names import TARGETS as TARGETS
from curator.audit.shard_targets import (
    adversarial,
    averaged_critics,
    decoupled_critics,
    directions_averaged,
    directions_voted,
    round_robin,
    student,
)
from curator.audit.target import Target
from curator.audit.uploaded import weights_and_features

_NUM_PROJECTIONS = 18  # as many as coordinates, so that a row keeps about its whole length
_NUM_FEATURES = 2  # one frequency: a whole released block shows in the gradients of a few samples


def make_target(name: str, noise_multiplier: float) -> Target:
    """Return one target.

    Args:
        name: One of `TARGETS`.
        noise_multiplier: Noise standard deviation over sensitivity.

    Returns:
        The target.

    Raises:
        ValueError: If there is no such target.
    """
    maker = _MAKERS.get(name)
    if maker is None:
        msg = f"mechanism: expected one of {', '.join(TARGETS)}"
        raise ValueError(msg)
    return maker(noise_multiplier)


def _sinkhorn(noise_multiplier: float) -> Target:
    return _sinkhorn_at("dp-sinkhorn", 1.0, noise_multiplier)


def _sinkhorn_of_half(noise_multiplier: float) -> Target:
    return _sinkhorn_at("dp-sinkhorn-half", 0.5, noise_multiplier)


def _sinkhorn_at(name: str, rate: float, noise_multiplier: float) -> Target:
    parameters: dict[str, object] = {
        "sampling_rate": rate,
        "capacity": CAPACITY,
        "num_samples": NUM_SAMPLES,
        "num_debias": NUM_DEBIAS,
        "clip_norm": 0.01,
        "noise_multiplier": noise_multiplier,
        "reg": 5.0,
        "l1_weight": 1.0,
        "label_scale": 1.0,
        "schedule": "published",
    }
    return Target(name=name, mechanism="dp-sinkhorn", parameters=parameters)


def _sliced(noise_multiplier: float) -> Target:
    parameters: dict[str, object] = {
        "sampling_rate": 1.0,
        "capacity": CAPACITY,
        "num_samples": NUM_SAMPLES + NUM_DEBIAS,
        "num_projections": _NUM_PROJECTIONS,
        "clip_norm": 4.0,  # the norm of black and white; a clipped sample has no slope along itself
        "label_scale": 0.0,
        "origin": "grey",
        "noise_multiplier": noise_multiplier,
        "max_size": MAX_RECORDS,
        "max_records_per_unit": 1,
    }
    return Target(name="dp-swd", mechanism="dp-swd", parameters=parameters, score="mean-difference")


def _sliced_features(noise_multiplier: float) -> Target:
    """One feature on one direction: nothing is averaged out, and its noise is a Gaussian's."""
    parameters: dict[str, object] = {
        "sampling_rate": 1.0,
        "capacity": CAPACITY,
        "num_samples": 1,
        "num_projections": 1,
        "architecture": "mlp-features",
        "num_features": 1,
        "clip_norm": 1.0,
        "noise_multiplier": noise_multiplier,
        "max_size": MAX_RECORDS,
        "max_records_per_unit": 1,
    }
    return Target(
        name="dp-swd-features",
        mechanism="dp-swd-features",
        parameters=parameters,
        score="discriminant",
        sends=weights_and_features,
    )


def _embedding(noise_multiplier: float) -> Target:
    parameters: dict[str, object] = {
        "num_features": _NUM_FEATURES,
        "bandwidths": [2.0],
        "feature_seed": 1,
        "noise_multiplier": noise_multiplier,
        "count_scale": 0.1,
    }
    return Target(name="mean-embedding", mechanism="mean-embedding", parameters=parameters)


def _trained_critic(noise_multiplier: float) -> Target:
    """Generated rows weigh next to nothing, so that Adam's first step is the sign of the sum."""
    parameters: dict[str, object] = {
        "sampling_rate": 1.0,
        "capacity": CAPACITY,
        "expected_batch_size": 0.01,
        "num_samples": NUM_SAMPLES,
        "num_fakes": 1,
        "clip_norm": 0.01,
        "noise_multiplier": noise_multiplier,
        "max_size": MAX_RECORDS,
        "max_records_per_unit": 1,
        "critic": "mlp",
        "critic_width": 2,
        "critic_seed": 1,
        "critic_steps": 1,
        "critic_learning_rate": 0.01,
    }
    return Target(name="dp-cgan", mechanism="dp-cgan", parameters=parameters, score="discriminant")


_MAKERS: dict[str, Callable[[float], Target]] = {
    "adversarial-dp-sinkhorn": adversarial,
    "dp-cgan": _trained_critic,
    "dp-merf-ae": embedding_of_codes,
    "dp-merf-ae-training": trained_autoencoder,
    "dp-sinkhorn": _sinkhorn,
    "dp-sinkhorn-half": _sinkhorn_of_half,
    "dp-swd": _sliced,
    "dp-swd-features": _sliced_features,
    "g-pate": directions_averaged,
    "g-pate-votes": directions_voted,
    "gs-wgan-decoupled": decoupled_critics,
    "gs-wgan-mean": averaged_critics,
    "gs-wgan-round-robin": round_robin,
    "mean-embedding": _embedding,
    "pate-gan": student,
}
