"""Events in turn, of which each may depend on what those before it released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from curator.accounting.events.base import LoneEvent, PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_sum import SampledSumEvent

SUMS_THEN_GAUSSIAN = "sums-then-gaussian"


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ComposedEvent(PrivacyEvent):
    """One use made of several, in turn; the next may be chosen by what those before released."""

    name: ClassVar[str] = "composed"

    in_turn: tuple[LoneEvent, ...]

    def __post_init__(self) -> None:
        """Check that there are two at least, and none of them made of others.

        Raises:
            ValueError: If not.
        """
        if len(self.in_turn) < 2 or not all(isinstance(one, LoneEvent) for one in self.in_turn):
            msg = "in_turn must be two events or more, none of them made of others"
            raise ValueError(msg)

    @property
    def parts(self) -> tuple[LoneEvent, ...]:
        """See `PrivacyEvent`."""
        return self.in_turn

    def in_words(self) -> str:
        """See `PrivacyEvent`."""
        return "; then one ".join(part.in_words() for part in self.in_turn)

    def to_json(self) -> dict[str, object]:
        """Return plain values; sums with a last Gaussian as they were written from the first."""
        match self.in_turn:
            case (SampledSumEvent() as sums, GaussianEvent(noise_multiplier=z)):
                of_sums = sums.to_json()
                return {"event": SUMS_THEN_GAUSSIAN, "noise_multiplier": float(z), "sums": of_sums}
            case _:
                return {"event": self.name, "in_turn": [part.to_json() for part in self.in_turn]}
