"""What FETA-Pro costs as published: noised mean images, one mean embedding, DP-SGD, in one ledger.

Its accountant is that of Opacus, with whole and tenth orders below 64, which adds three histories:
noised images of class means over samples of the records, one noised embedding of all of them, and
steps of DP-SGD, whose noise is what brings all together to the stated epsilon, within .01 below it.
That is sound for what it is told, for adding or removing one record.

The class means are not quite what it is told. A mean of a class is a sum over its sampled records
divided by their number, while noise is set for a division by the size of the batch over that of the
classes. One record moves a mean over n of them by the norm of an image over n, so the noise over
what it moves is n / (batch / classes) of the stated one: `class_share`. Samples are drawn at one
over the number of batches, rounded up, which is a little less than stated (`drawn_rate`). How large
a class is, and a sample of it, is a matter of the data and of luck. No bound holds of all data,
since a class may have one record, or none.

Records that are kept for validation are in none of the three histories. They choose the checkpoint
without noise, so no epsilon of this ledger is about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from curator.accounting.epsilon_alone import pld_epsilon
from curator.accounting.events.base import LoneEvent
from curator.accounting.events.composed import ComposedEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import sampled_gaussian_at
from curator.accounting.events.sampled_sum import SampledSumEvent
from curator.accounting.rdp import epsilon_from_rdp
from curator.privacy.event_numbers import SamplingRate

_ORDERS: Final = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(12, 64))
_TOLERANCE: Final = 0.01
_FIRST_NOISE: Final = 20.0
_LARGEST_NOISE: Final = 1e6


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreeParts:
    """A run of the released code; noise is over what one record may move, as stated.

    Attributes:
        image_noise: Of each mean image.
        image_rate: Sampling rate of the means, as its accountant is told.
        num_images: Mean images of each class.
        embedding_noise: Of the one embedding.
        training_rate: Sampling rate of DP-SGD.
        training_steps: Its steps.
        drawn_rate: Sampling rate of the means, as they are drawn.
        class_share: Sampled records of the record's class over those that noise is set for.
    """

    image_noise: float
    image_rate: float
    num_images: int
    embedding_noise: float
    training_rate: float
    training_steps: int
    drawn_rate: float
    class_share: float

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range.
        """
        noises = (self.image_noise, self.embedding_noise, self.class_share)
        if not all(0 < one < _LARGEST_NOISE for one in noises):
            msg = "image_noise, embedding_noise and class_share must be positive numbers"
            raise ValueError(msg)
        rates = (self.image_rate, self.drawn_rate, self.training_rate)
        if not all(0 < one < 1 for one in rates):
            msg = "image_rate, drawn_rate and training_rate must be in (0, 1)"
            raise ValueError(msg)
        if self.num_images < 1 or self.training_steps < 1:
            msg = "num_images and training_steps must be at least 1"
            raise ValueError(msg)

    def event(self, training_noise: float) -> ComposedEvent:
        """Return the whole run, with the noise that class means really have."""
        return ComposedEvent(
            in_turn=(
                _sums(self.drawn_rate, self.image_noise * self.class_share, self.num_images),
                GaussianEvent(noise_multiplier=self.embedding_noise),
                _sums(self.training_rate, training_noise, self.training_steps),
            )
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PartsBounds:
    """Epsilons of such a run.

    Attributes:
        training_noise: Of DP-SGD, over the clip norm, by its accountant's search.
        reported: What its accountant says then, whatever is drawn.
        renyi: Of what is drawn, over the same orders.
        losses: The same by privacy loss distributions.
    """

    training_noise: float
    reported: float
    renyi: float
    losses: float


def parts_bounds(run: ThreeParts, epsilon: float, delta: float) -> PartsBounds:
    """Return what a published run costs, declared in advance.

    Args:
        run: Its parameters.
        epsilon: Stated, for which the noise of DP-SGD is searched.
        delta: Of all of it.

    Raises:
        ValueError: If the other parts leave nothing of epsilon.
    """
    searched = training_noise(run, epsilon, delta)
    event = run.event(searched)
    return PartsBounds(
        training_noise=searched,
        reported=_by_renyi(run, searched, delta, is_told=True),
        renyi=_by_renyi(run, searched, delta, is_told=False),
        losses=pld_epsilon(event, 1, delta),
    )


def _sums(rate: float, noise_multiplier: float, num_releases: int) -> LoneEvent:
    return SampledSumEvent(
        sampling_rate=SamplingRate.at_least(rate),
        noise_multiplier=noise_multiplier,
        overflow_probability=0.0,
        num_releases=num_releases,
    )


def training_noise(run: ThreeParts, epsilon: float, delta: float) -> float:
    """Return the first noise, of halved intervals, that is within .01 below epsilon.

    Args:
        run: What else there is.
        epsilon: Stated for all of it.
        delta: Of all of it.

    Raises:
        ValueError: If there is none.
    """
    low, high = 0.0, _FIRST_NOISE
    while (reached := _by_renyi(run, high, delta, is_told=True)) > epsilon:
        high *= 2
        if high > _LARGEST_NOISE:
            msg = "the mean images and the embedding leave nothing of epsilon"
            raise ValueError(msg)
    while epsilon - reached > _TOLERANCE:
        middle = (low + high) / 2
        found = _by_renyi(run, middle, delta, is_told=True)
        if found < epsilon:
            high, reached = middle, found
        else:
            low = middle
    return high


def _by_renyi(run: ThreeParts, noise: float, delta: float, *, is_told: bool) -> float:
    """Return the epsilon over its accountant's orders, as it is told or as images are drawn."""
    rate = run.image_rate if is_told else run.drawn_rate
    image_noise = run.image_noise if is_told else run.image_noise * run.class_share

    def at(order: float) -> float:
        divergence = (
            run.num_images * sampled_gaussian_at(rate, image_noise, order)
            + order / (2 * run.embedding_noise**2)
            + run.training_steps * sampled_gaussian_at(run.training_rate, noise, order)
        )
        return epsilon_from_rdp(order, divergence, delta)

    return min(map(at, _ORDERS))
