"""The smallest run of a mechanism, from its specification: a new mechanism has one by being listed.

Every number is the least that its field takes, every choice the first one. What only some fields
allow together is said in `TOGETHER`.
"""

from __future__ import annotations

from typing import Any, Final

from curator.mechanisms.base import ServedMechanism
from curator.privacy.batches import ImageSpace
from tests.fakes import networks

SPACE: Final = ImageSpace(channels=1, height=4, width=4, max_level=16, num_classes=3)

TOGETHER: Final[dict[str, dict[str, Any]]] = {
    "dp-merf-ae": {"num_features": 4, "bandwidths": [1.0]},
    "feature-statistics": networks.PARAMETERS | {"noise_multiplier": 1.5, "refinements": [1.6]},
    "g-pate": {"num_bins": 2, "num_projections": 3},
    "mean-embedding": {"num_features": 4, "bandwidths": [1.0]},
    "pate-gan": {"reach": 0.5},
    "score": {"architecture": "mlp-features"},
}
NUMBERS: Final = {
    "noise_multiplier": 1.5,
    "training_noise_multiplier": 1.5,
    "sampling_rate": 0.5,
    "capacity": 8,
    "shard_capacity": 8,
    "max_size": 10,
    "num_samples": 3,
    "clip_norm": 0.5,
    "reg": 0.5,
}
"""Numbers at which a test sees something; the least of the others is enough."""


def small_parameters(mechanism: type[ServedMechanism]) -> dict[str, Any]:
    """Return parameters of a small run, without those that may be left out."""
    schema = mechanism.specification.model_json_schema()
    required = {name: schema["properties"][name] for name in schema["required"]}
    chosen = {name: NUMBERS.get(name, _least(field)) for name, field in required.items()}
    return chosen | TOGETHER.get(mechanism.name, {})


def _least(field: dict[str, Any]) -> Any:
    if "const" in field:
        return field["const"]
    if "enum" in field:
        return field["enum"][0]
    if field["type"] == "array":
        return [_least(field["items"])] * field.get("minItems", 0)
    least = field.get("minimum", field.get("exclusiveMinimum", 0))
    if field["type"] == "integer":
        return int(least)
    return float(least) if "minimum" in field else float(least) + 0.01
