"""The client of the barrier: the only code of the analyst that knows the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyst.lazy import lazily

if TYPE_CHECKING:
    from analyst.client.barrier import Barrier, connect
    from analyst.client.run import Run
    from analyst.facts import Budget, DatasetFacts, Plan
else:
    __getattr__ = lazily(
        __name__,
        {
            "analyst.client.barrier": (
                "Barrier",
                "connect",
            ),
            "analyst.facts": (
                "Budget",
                "DatasetFacts",
                "Plan",
            ),
            "analyst.client.run": ("Run",),
        },
    )

__all__ = ["Barrier", "Budget", "DatasetFacts", "Plan", "Run", "connect"]
