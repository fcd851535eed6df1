"""One Gaussian release of a function of all units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

from curator.accounting.events.base import LoneEvent, PoissonGaussian
from curator.accounting.events.sampled_gaussian import library_epsilon
from curator.accounting.profile_composition import (
    MIN_NOISE_MULTIPLIER,
    Profiles,
    sampled_gaussian_profiles,
)
from curator.accounting.rdp import gaussian_rdp
from curator.privacy.event_numbers import check_noise_multiplier

_ROUNDING = 1 - 1e-12


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianEvent(LoneEvent):
    """One Gaussian release of a function of all units."""

    name: ClassVar[str] = "gaussian"

    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the multiplier.

        Raises:
            ValueError: If the multiplier is out of range.
        """
        check_noise_multiplier(self.noise_multiplier)

    def rdp(self, alpha: float) -> float:
        """See `LoneEvent`."""
        return gaussian_rdp(self.noise_multiplier, alpha)

    def by_definition(self, alpha: float) -> float:
        """See `LoneEvent`; the formula is its definition."""
        return gaussian_rdp(self.noise_multiplier, alpha)

    def profiles(self) -> Profiles | None:
        """See `LoneEvent`."""
        if self.noise_multiplier < MIN_NOISE_MULTIPLIER:
            return None
        return sampled_gaussian_profiles(1.0, self.noise_multiplier)

    def composed_epsilon(self, num_uses: int, delta: float, ceiling: float) -> float | None:
        """See `PrivacyEvent`; Gaussians compose exactly, to one Gaussian."""
        together = self.noise_multiplier / math.sqrt(num_uses) * _ROUNDING
        return library_epsilon(1.0, together, 1, delta, ceiling)

    @property
    def elsewhere(self) -> PoissonGaussian:
        """See `LoneEvent`."""
        return PoissonGaussian(sampling_rate=1.0, noise_multiplier=self.noise_multiplier)

    def in_words(self) -> str:
        """See `PrivacyEvent`."""
        return (
            "Gaussian release of a function of all units, noise std / sensitivity "
            f"{self.noise_multiplier:g}"
        )
