"""Targets whose release holds a trained encoder: one part has little noise, the other much.

Samples are of rate one: at any other rate the same words pick other records from neighbouring data
sets, and noise-free sums cannot be compared.
"""

from __future__ import annotations

from curator.audit.canaries import CAPACITY, MAX_RECORDS
from curator.audit.released import of_embedding, of_training
from curator.audit.target import Target
from curator.mechanisms.specification import MAX_ROWS

_MUCH_NOISE = 1000.0  # that part says next to nothing, and costs as much


def embedding_of_codes(noise_multiplier: float) -> Target:
    """Return DP-MERF-AE whose encoder is all noise, and another one in each run.

    Args:
        noise_multiplier: Of the embedding; noise standard deviation over sensitivity.
    """
    own: dict[str, object] = {
        "training_noise_multiplier": _MUCH_NOISE,
        "training_steps": 2,
        "noise_multiplier": noise_multiplier,
    }
    return Target(
        name="dp-merf-ae",
        mechanism="dp-merf-ae",
        parameters=_autoencoder(expected_batch_size=1.0) | own,
        statistic=of_embedding,
    )


def trained_autoencoder(noise_multiplier: float) -> Target:
    """Return DP-MERF-AE with one update, whose slopes are too small for Adam to hide their size.

    Args:
        noise_multiplier: Of the training; noise standard deviation over sensitivity.
    """
    own: dict[str, object] = {
        "training_noise_multiplier": noise_multiplier,
        "training_steps": 1,
        "noise_multiplier": _MUCH_NOISE,
    }
    divisor = min(300.0 * noise_multiplier, MAX_ROWS)  # noised slopes are a third of the epsilon
    return Target(
        name="dp-merf-ae-training",
        mechanism="dp-merf-ae",
        parameters=_autoencoder(expected_batch_size=divisor) | own,
        statistic=of_training,
    )


def _autoencoder(expected_batch_size: float) -> dict[str, object]:
    return {
        "sampling_rate": 1.0,
        "capacity": CAPACITY,
        "expected_batch_size": expected_batch_size,
        "max_size": MAX_RECORDS,
        "max_records_per_unit": 1,
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
    }
