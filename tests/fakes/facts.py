"""Public facts of a small data set."""

from __future__ import annotations

from typing import Any

from curator.privacy.facts import DatasetFacts


def small_facts(**changes: Any) -> DatasetFacts:
    """Return the facts of a 2x2 data set with three classes."""
    values: dict[str, Any] = {
        "name": "small",
        "channels": 1,
        "height": 2,
        "width": 2,
        "max_level": 16,
        "classes": ("a", "b", "c"),
        "nominal_size": 5,
        "max_size": 10,
        "sampling_rate": 0.5,
        "capacity": 8,
        "relation": "add-or-remove",
        "unit": "record",
        "epsilon": 10.0,
        "delta": 1e-5,
    }
    return DatasetFacts(**(values | changes))
