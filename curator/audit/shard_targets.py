"""Targets with one network a shard, made so that one record turns its network around.

An update shows each critic one record of its shard, whose place a public number picks. Seeds are
chosen such that with the canary in, the canary is picked and the gradient turns around; Adam's
steps are so large that what the first ones see is all that counts.
"""

from __future__ import annotations

from curator.audit.canaries import CAPACITY
from curator.audit.target import Target

_NUM_SHARDS = 2
_TURNING_SEED = 3  # with it the flip canary turns a critic's gradient around, step after step
_TURNING_SEED_OF_ROUNDS = 54  # the same, where others learn between two steps of a critic


def averaged_critics(noise_multiplier: float) -> Target:
    """Return GS-WGAN with averaged critics, two steps of a run a trial.

    Args:
        noise_multiplier: Noise standard deviation over sensitivity.
    """
    return _critics("gs-wgan-mean", noise_multiplier, num_steps=2)


def decoupled_critics(noise_multiplier: float) -> Target:
    """Return GS-WGAN with decoupled critics, all updated in the one step of a trial.

    Args:
        noise_multiplier: Noise standard deviation over sensitivity.
    """
    return _critics("gs-wgan-decoupled", noise_multiplier, critics_per_step=_NUM_SHARDS)


def round_robin(noise_multiplier: float) -> Target:
    """Return GS-WGAN with critics in turn, until the first has answered twice.

    Args:
        noise_multiplier: Noise standard deviation over sensitivity.
    """
    seed = _TURNING_SEED_OF_ROUNDS
    return _critics(
        "gs-wgan-round-robin", noise_multiplier, num_steps=_NUM_SHARDS + 1, critic_seed=seed
    )


def directions_averaged(noise_multiplier: float) -> Target:
    """Return G-PATE whose teachers are averaged.

    Args:
        noise_multiplier: Noise standard deviation over sensitivity.
    """
    own: dict[str, object] = {
        "teacher_seed": 40,
        "aggregation": "mean",
        "num_projections": 4,
        "num_bins": 0,
        "projection_seed": 1,
        "clip_norm": 0.01,
    }
    parameters = _teachers(noise_multiplier) | own
    return Target(name="g-pate", mechanism="g-pate", parameters=parameters, parts="num_teachers")


def directions_voted(noise_multiplier: float) -> Target:
    """Return G-PATE with votes: one question, of which the analyst learns the winner alone.

    Args:
        noise_multiplier: Noise standard deviation over sensitivity.
    """
    own: dict[str, object] = {
        "aggregation": "votes",
        "num_projections": 1,
        "num_bins": 2,
        "projection_seed": 1,
        "clip_norm": 0.01,
    }
    return Target(
        name="g-pate-votes",
        mechanism="g-pate",
        parameters=_teachers(noise_multiplier) | own,
        parts="num_teachers",
        score="discriminant",
    )


def student(noise_multiplier: float) -> Target:
    """Return PATE-GAN with one question a step, whose student passes the count on as it is.

    Args:
        noise_multiplier: Noise standard deviation over sensitivity.
    """
    own: dict[str, object] = {
        "num_teachers": 4,
        "num_labelled": 1,
        "labels": "relative",
        "reach": 0.5,
        "student": "mlp",
        "student_width": 3,
        "student_seed": 1,
        "student_batch": 1,
        "student_steps": 1,
        "student_learning_rate": 1e-6,
        "pool_steps": 1,
        "residual": 10.0,
    }
    return Target(
        name="pate-gan",
        mechanism="pate-gan",
        parameters=_teachers(noise_multiplier) | own,
        parts="num_teachers",
    )


def adversarial(noise_multiplier: float) -> Target:
    """Return adversarial DP-Sinkhorn, whose extractors have learnt once.

    Args:
        noise_multiplier: Noise standard deviation over sensitivity.
    """
    parameters: dict[str, object] = {
        "num_extractors": _NUM_SHARDS,
        "shard_capacity": CAPACITY,
        "num_samples": 2,
        "num_debias": 1,
        "clip_norm": 0.01,
        "noise_multiplier": noise_multiplier,
        "reg": 5.0,
        "label_scale": 1.0,
        "feature_scale": 0.1,
        "extractor": "mlp",
        "extractor_width": 4,
        "extractor_seed": 7,
        "extractor_steps": 1,
        "extractor_learning_rate": 0.01,
    }
    return Target(
        name="adversarial-dp-sinkhorn",
        mechanism="adversarial-dp-sinkhorn",
        parameters=parameters,
        parts="num_extractors",
    )


def _critics(name: str, noise_multiplier: float, num_steps: int = 1, **own: object) -> Target:
    parameters: dict[str, object] = {
        "num_critics": _NUM_SHARDS,
        "shard_capacity": CAPACITY,
        "num_samples": 1,
        "clip_norm": 0.01,
        "noise_multiplier": noise_multiplier,
        "critic": "mlp",
        "critic_width": 4,
        "critic_seed": _TURNING_SEED,
        "critic_batch": 1,
        "critic_steps": 2,
        "warm_start_steps": 0,
        "critic_learning_rate": 1.0,
        "gradient_penalty": 0.0,
    }
    return Target(
        name=name,
        mechanism=name,
        parameters=parameters | own,
        num_steps=num_steps,
        parts="num_critics",
    )


def _teachers(noise_multiplier: float) -> dict[str, object]:
    return {
        "num_teachers": _NUM_SHARDS,
        "shard_capacity": CAPACITY,
        "num_samples": 1,
        "noise_multiplier": noise_multiplier,
        "teacher": "mlp",
        "teacher_width": 3,
        "teacher_seed": 30,
        "teacher_batch": 1,
        "teacher_steps": 2,
        "warm_start_steps": 0,
        "teacher_learning_rate": 1.0,
        "gradient_penalty": 0.0,
    }
