"""How many votes of teachers the published noise of G-PATE and PATE-GAN affords, charged by noise.

Their papers charge by what the votes were, a number that is private itself and decides when
training stops. What a vote costs whatever it was is a Gaussian's mu; votes compose by adding mu^2.
This is information about published settings, and nothing is offered at any of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from scipy.special import log_ndtr

_MOST: Final = 1 << 20
_LEAST_NOISE: Final = 1e-2
_HALVINGS: Final = 100
_LARGEST_MU: Final = 1e3


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedVotes:
    """Noise standard deviations in votes; `threshold_noise` is None where nothing is tested first.

    With `counts_all_sides` a teacher that changes its mind moves two counts by one each, else one.
    """

    vote_noise: float
    threshold_noise: float | None
    counts_all_sides: bool
    votes_per_image: int
    images_per_batch: int

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range.
        """
        for name, count in (
            ("num_projections", self.votes_per_image),
            ("num_samples", self.images_per_batch),
        ):
            if type(count) is not int or not 1 <= count <= _MOST:
                msg = f"{name} must be an integer in [1, {_MOST}]"
                raise ValueError(msg)
        tested = (
            () if self.threshold_noise is None else (("threshold_noise", self.threshold_noise),)
        )
        for name, noise in (("vote_noise", self.vote_noise), *tested):
            if type(noise) not in {int, float} or not _LEAST_NOISE <= noise <= _MOST:
                msg = f"{name} must be a number in [{_LEAST_NOISE:g}, {_MOST}]"
                raise ValueError(msg)

    @property
    def mu(self) -> float:
        """What one answered vote costs, as the mu of Gaussian differential privacy."""
        squared = (2 if self.counts_all_sides else 1) / self.vote_noise**2
        if self.threshold_noise is not None:
            squared += 1 / self.threshold_noise**2
        return math.sqrt(squared)


@dataclass(frozen=True, kw_only=True, slots=True)
class AffordedVotes:
    """What a whole (epsilon, delta) buys of answered votes, if all are declared in advance."""

    total_mu: float
    num_votes: int
    num_images: float
    num_batches: float


def afforded_votes(run: PublishedVotes, epsilon: float, delta: float) -> AffordedVotes:
    """Return how many answered votes fit a budget, whatever the votes are.

    Args:
        run: A published setting.
        epsilon: Of the whole run.
        delta: Of the whole run.

    Returns:
        Their number, and what that is in images and generator batches.

    References:
        [balle:20], for the conversion of a Gaussian.
    """
    total = gaussian_mu(epsilon, delta)
    votes = math.floor((total / run.mu) ** 2)
    images = votes / run.votes_per_image
    return AffordedVotes(
        total_mu=total,
        num_votes=votes,
        num_images=images,
        num_batches=images / run.images_per_batch,
    )


def votes_lines(afforded: AffordedVotes) -> Iterator[str]:
    """Yield in words what the published noise buys.

    Args:
        afforded: Votes of a budget.
    """
    yield (
        "published    accounting by the votes themselves, a number that is private and decides "
        "when to stop"
    )
    yield (
        f"votes that the budget affords  {afforded.num_votes:,} whatever they are, all of mu "
        f"{afforded.total_mu:.4f},"
    )
    yield (
        f"                               or {afforded.num_images:,.0f} images in "
        f"{afforded.num_batches:,.0f} batches of the generator, if declared in advance"
    )


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu at which a Gaussian release is (epsilon, delta)-private.

    Args:
        epsilon: Above 0.
        delta: In (0, 1).

    Returns:
        mu, from below within 1e-12 relatively.
    """
    low, high = 0.0, _LARGEST_MU
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _delta(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def _delta(mu: float, epsilon: float) -> float:
    """Return the delta of N(mu, 1) against N(0, 1)."""
    above = math.exp(log_ndtr(mu / 2 - epsilon / mu))
    return above - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
