"""How the answers of several curators become one, and what happens when a curator is lost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Combine(StrEnum):
    """How several answers become one; everything that decides is public."""

    MEAN = "mean"  # each round asks all; their gradients are averaged by public weights
    ROUND_ROBIN = "round-robin"  # each round asks one, in turn
    SUM = "sum"  # each releases one embedding; the sums of all are added by public weights


class OnLoss(StrEnum):
    """What a curator that is lost, or has used its steps before the others, means for the rest."""

    STOP = "stop"  # training ends with a checkpoint, and can be resumed
    CONTINUE = "continue"  # training goes on with the others, and says so


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What an analyst chose for a federation."""

    combine: Combine
    on_loss: OnLoss
    patience_s: float  # a curator that does not answer for so long is lost
