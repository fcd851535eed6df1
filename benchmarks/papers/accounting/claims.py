"""What published papers say that their runs cost; public constants, shown beside what we compute.

No true value is kept here: it is computed, for the claimed number of steps too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.hidden_part import HiddenPartEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
)
from curator.privacy.event_numbers import SamplingRate

_CLOSE: Final = 2e-3


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A workload with the (epsilon, delta) that its authors state."""

    what: str
    source: str
    event: PrivacyEvent
    num_steps: int
    epsilon: float
    delta: float


def _sampled(q: float, z: float) -> PrivacyEvent:
    return SampledGaussianEvent(sampling_rate=SamplingRate.at_least(q), noise_multiplier=z)


def _sliced(q: float, d: int, k: int, z: float) -> PrivacyEvent:
    base = SlicedGaussianEvent(dimension=d, num_projections=k, noise_multiplier=z)
    return SampledSlicedGaussianEvent(
        sampling_rate=SamplingRate.at_least(q), base=base, overflow_probability=0.0
    )


_SINKHORN: Final = "Cao et al., NeurIPS 2021"
_SLICED: Final = "Rakotomamonjy and Ralaivola, ICML 2021, stated for replacing a record"

CLAIMS: Final = (
    Claim(
        what="DP-Sinkhorn on MNIST",
        source=_SINKHORN,
        event=_sampled(1 / 1200, 1.1),
        num_steps=3_400_000,
        epsilon=10.0,
        delta=1e-5,
    ),
    Claim(
        what="DP-Sinkhorn on CelebA",
        source=_SINKHORN,
        event=_sampled(0.00123, 0.8),
        num_steps=1_100_000,
        epsilon=10.0,
        delta=1e-6,
    ),
    Claim(
        what="DP-MERF with an autoencoder on MNIST",
        source="Chen et al., NeurIPS 2020, appendix, stated for replacing a record",
        event=HiddenPartEvent(num_parts=120, noise_multiplier=0.686),
        num_steps=2040,
        epsilon=10.0,
        delta=1e-5,
    ),
    *(
        Claim(
            what=f"DP-SWD on {what}",
            source=_SLICED,
            event=_sliced(q, d, k, z),
            num_steps=num_steps,
            epsilon=10.0,
            delta=delta,
        )
        for what, q, d, k, z, num_steps, delta in (
            ("MNIST, Bernstein bound", 100 / 60000, 784, 1000, 2.94, 60_000, 1e-5),
            ("MNIST, central limit", 100 / 60000, 784, 1000, 0.84, 60_000, 1e-5),
            ("USPS to MNIST, Bernstein bound", 0.0128, 784, 200, 4.74, 7_900, 1e-5),
            ("VisDA, Bernstein bound", 0.002311011609222381, 100, 1000, 6.4, 21_650, 1e-5),
            ("CelebA, Bernstein bound", 256 / 162000, 8192, 2000, 2.392, 63_300, 1e-6),
            ("CelebA, central limit", 256 / 162000, 8192, 2000, 0.37, 63_300, 1e-6),
        )
    ),
)


def claims_about(event: PrivacyEvent) -> tuple[Claim, ...]:
    """Return the claims about releases with these parameters, whatever the number of steps."""
    return tuple(claim for claim in CLAIMS if _alike(claim.event, event))


def _alike(claimed: PrivacyEvent, event: PrivacyEvent) -> bool:
    pair = _numbers(claimed), _numbers(event)
    return (
        bool(pair[0])
        and type(claimed) is type(event)
        and all(math.isclose(a, b, rel_tol=_CLOSE) for a, b in zip(*pair, strict=True))
    )


def _numbers(event: PrivacyEvent) -> tuple[float, ...]:
    if isinstance(event, SampledGaussianEvent):
        return float(event.sampling_rate), event.noise_multiplier
    if isinstance(event, HiddenPartEvent):
        return event.num_parts, event.noise_multiplier
    if isinstance(event, SampledSlicedGaussianEvent):
        base = event.base
        rate = float(event.sampling_rate)
        return rate, base.dimension, base.num_projections, base.noise_multiplier
    return ()
