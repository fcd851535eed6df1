"""The client of the barrier: the only code of the analyst that knows the wire."""

from analyst.client.barrier import Barrier, connect
from analyst.client.facts import Budget, DatasetFacts, Plan
from analyst.client.run import Run

__all__ = ["Barrier", "Budget", "DatasetFacts", "Plan", "Run", "connect"]
