"""What an accountant must know of one use of the private data; frozen and complete.

A file of this package is all that there is of an event: its numbers, its Renyi divergence and the
bound that is charged, its privacy loss, a second opinion, its words and its text. A new event is
such a file and its name in `event_text.EVENTS`; nobody asks an event which one it is.

`noise_multiplier` is always noise standard deviation divided by the sensitivity of the noised
vector under the data set's adjacency (for a whole batch clipped to C, sensitivity is 2C).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Self

from curator.accounting.profile_composition import (
    Profiles,
    epsilon_of_uses,
    fits_a_grid,
    grid_interval,
)
from curator.privacy.event_numbers import SamplingRate


@dataclass(frozen=True, kw_only=True, slots=True)
class PoissonGaussian:
    """A Gaussian of a Poisson sample: what other libraries know.

    `is_all` is whether they would price the whole of an event so: they know of no overflow.
    """

    sampling_rate: float
    noise_multiplier: float
    is_all: bool = True


class PrivacyEvent(ABC):
    """One use of the private data."""

    __slots__ = ()

    name: ClassVar[str]
    """What texts call it, for as long as any ledger has one."""

    @property
    @abstractmethod
    def parts(self) -> tuple[LoneEvent, ...]:
        """What is released, in turn; each may depend on what those before it released."""

    @abstractmethod
    def in_words(self) -> str:
        """Return a phrase that names every number."""

    def composed_epsilon(self, num_uses: int, delta: float, ceiling: float) -> float | None:
        """Return the epsilon of uses declared in advance, by loss distributions.

        Returns:
            None where the distribution would be too large to compute.
        """
        uses = [(part.profiles(), num_uses * part.repeats) for part in self.parts]
        known = [(profiles, count) for profiles, count in uses if profiles is not None]
        num_releases = sum(count for _, count in uses)
        if len(known) < len(uses) or not fits_a_grid(ceiling, num_releases, delta):
            return None
        return epsilon_of_uses(known, delta, grid_interval(ceiling, num_releases, delta))

    def to_json(self) -> dict[str, object]:
        """Return plain values under the names of the fields; a rate as its exact numerator."""
        values = {f.name: _WRITE[str(f.type)](getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        return {"event": self.name, **values}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the event that `to_json` wrote.

        Raises:
            KeyError: If a number is missing.
            TypeError: If one is of another type.
            ValueError: If one is out of range.
        """
        given = {f.name: _READ[str(f.type)](value[f.name]) for f in fields(cls)}  # type: ignore[arg-type]
        return cls(**given)


class LoneEvent(PrivacyEvent):
    """What is not made of other events: `repeats` releases alike, each in view of those before."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[LoneEvent, ...]:
        """Itself."""
        return (self,)

    @property
    def repeats(self) -> int:
        """Releases of one use."""
        return 1

    @abstractmethod
    def rdp(self, alpha: float) -> float:
        """Return the Renyi divergence of one release at any real order above one.

        In the worse direction, which is remove, and exact up to float rounding unless an event's
        own says that it is an upper bound.
        """

    def rdp_bound(self, alpha: float) -> float:
        """Return what is charged of one release, but for an inflation by 1e-9 and rounding up.

        An upper bound up to float rounding below 1e-10 relative, which the inflation covers.
        """
        return self.rdp(alpha)

    @abstractmethod
    def by_definition(self, alpha: float) -> float:
        """Return `rdp` again in 40 digits, by other means, for the second opinion."""

    def profiles(self) -> Profiles | None:
        """Return the privacy profiles of one release; None where its losses would fill gigabytes.

        They are information, never a charge.
        """
        return None

    @property
    def elsewhere(self) -> PoissonGaussian | None:
        """One release as other libraries know it; None where they know nothing like it."""
        return None


_WRITE: Final[dict[str, Callable[[Any], object]]] = {
    "float": float,
    "int": int,
    "SamplingRate": lambda rate: str(rate.numerator),
}
_READ: Final[dict[str, Callable[[Any], object]]] = {
    "float": lambda number: number,
    "int": lambda number: number,
    "SamplingRate": lambda text: SamplingRate(int(text)),
}
