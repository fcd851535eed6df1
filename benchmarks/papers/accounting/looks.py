"""What Dosser costs as published: clean sums are stored, and noised anew at every look.

Sums of clipped features over fresh Poisson samples are made first, without noise: `num_sums` of
them, one of each class a time. Each of `num_looks` training steps picks one at random and adds
fresh noise. Its accountant is told of as many noised sums as are stored. What training reads is
`num_looks` noised sums. k noised copies of one sum have a mean that says all of them, with noise
smaller by sqrt(k): so a stored sum is one release, at one sampling, with that much less noise.

Which sum is picked depends on nothing private, and is counted as seen. With k_i looks at sum i the
moment of order a is the product of A(k_i), where log A is convex in k, for A is a sum of exponents
of multiples of k. So of all ways to share the looks out, equal shares cost the least, at every
order. Numbers of looks by chance are multinomial, so negatively associated, and A grows with k: so
the mean of the product is at most the product of the means, each of a binomial number of looks.

All of it is for adding or removing one record, of its own class, and for everything that training
reads, as its accountant counts; the images are a function of that.

Privacy loss in closed form at whole orders a, with q the rate and s the noise over the clip norm:
A(k) = sum over j of C(a, j) (1-q)^(a-j) q^j e^(k j (j-1) / 2 s^2), and of a binomial k of n looks
of chance p each the exponential becomes (1 + p (e^(j (j-1) / 2 s^2) - 1))^n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scipy.stats import binom

from curator.accounting.events.sampled_gaussian import sampled_gaussian_at
from curator.accounting.profile_composition import fitted_epsilon, sampled_gaussian_profiles
from curator.accounting.rdp import epsilon_from_rdp
from curator.accounting.sampled_rdp import (
    log1p_exp,
    log_expm1,
    log_sampled_excess,
    sampled_gaussian_rdp_at,
)

_MOST: Final = 1 << 30
_WHOLE: Final = range(2, 65)
_BETWEEN: Final = (
    *(1 + step / 40 for step in range(1, 40)),
    *(whole + step / 5 for whole in range(2, 6) for step in range(1, 5)),
)
_ALL: Final = (*_BETWEEN, *_WHOLE)
_REACH: Final = 12  # standard deviations of looks: beyond them A weighs nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSums:
    """A run of the released code.

    Attributes:
        sampling_rate: Of each record of a class, for each sum.
        noise_multiplier: Noise of one look, over what a record may move a sum.
        num_sums: Stored for each class, and told to the accountant.
        num_looks: Steps of training.
        told_delta: What its accountant converts with.
    """

    sampling_rate: float
    noise_multiplier: float
    num_sums: int
    num_looks: int
    told_delta: float

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range.
        """
        if not 0 < self.sampling_rate < 1 or not 0 < self.noise_multiplier < _MOST:
            msg = "sampling_rate must be in (0, 1) and noise_multiplier positive"
            raise ValueError(msg)
        if not 1 <= self.num_sums <= self.num_looks <= _MOST:
            msg = f"num_sums must be from 1 to num_looks, and those at most {_MOST}"
            raise ValueError(msg)
        if not 0 < self.told_delta < 1:
            msg = "told_delta must be in (0, 1)"
            raise ValueError(msg)

    def after(self, looks: float) -> float:
        """Return the noise of one stored sum after so many looks at it."""
        return self.noise_multiplier / math.sqrt(looks)


@dataclass(frozen=True, kw_only=True, slots=True)
class LooksBounds:
    """Epsilons of such a run.

    Attributes:
        reported: By Renyi for one look at each sum, which its accountant is told.
        renyi: With as many looks at each sum: the least, in Renyi divergence, of all ways.
        losses: The same by privacy loss distributions.
        most: By Renyi for looks at random, as they are: an upper bound.
    """

    reported: float
    renyi: float
    losses: float
    most: float


def looks_bounds(run: StoredSums, delta: float) -> LooksBounds:
    """Return what a published run costs, declared in advance.

    Args:
        run: Its parameters.
        delta: Of all of it.

    References:
        [zheng:25], whose code of 2025 this is about; [mironov:19]; [doroshenko:22].
    """
    rate, num_sums = run.sampling_rate, run.num_sums
    equal = run.after(run.num_looks / num_sums)
    profiles = sampled_gaussian_profiles(rate, equal)

    def renyi(noise_multiplier: float, told_delta: float) -> float:
        return _best(
            {
                order: num_sums * sampled_gaussian_at(rate, noise_multiplier, order)
                for order in _ALL
            },
            told_delta,
        )

    return LooksBounds(
        reported=renyi(run.after(1), run.told_delta),
        renyi=renyi(equal, delta),
        losses=max(
            fitted_epsilon(profiles.remove, profiles.add, num_sums, delta),
            fitted_epsilon(profiles.add, profiles.remove, num_sums, delta),
        ),
        most=_at_random(run, delta),
    )


def _best(divergences: Mapping[float, float], delta: float) -> float:
    """Return the least epsilon of divergences by order."""
    finite = {order: one for order, one in divergences.items() if one < math.inf}
    return max(0.0, min(epsilon_from_rdp(order, one, delta) for order, one in finite.items()))


def _at_random(run: StoredSums, delta: float) -> float:
    """Return the least epsilon over whole orders, and over some between one and two."""
    logs: dict[float, float] = {order: _log_mean(run, order) for order in _BETWEEN}
    logs |= {order: _log_moment(run, order) for order in _WHOLE}
    divergences = {order: run.num_sums * log / (order - 1) for order, log in logs.items()}
    return _best(divergences, delta)


def _log_mean(run: StoredSums, order: float) -> float:
    """Return the logarithm of the mean of A over the numbers of looks that there may be."""
    mean = run.num_looks / run.num_sums
    reach = _REACH * math.sqrt(mean) + _REACH
    first, last = max(0, math.floor(mean - reach)), min(run.num_looks, math.ceil(mean + reach))
    looks = range(max(1, first), last + 1)
    weights = binom.pmf(list(looks), run.num_looks, 1 / run.num_sums)
    total = float(binom.sf(last, run.num_looks, 1 / run.num_sums)) + max(0.0, 1 - weights.sum())
    for number, weight in zip(looks, weights, strict=True):
        noise = run.noise_multiplier / math.sqrt(number)
        divergence = sampled_gaussian_rdp_at(run.sampling_rate, noise, order)
        total += float(weight) * math.exp((order - 1) * divergence)
    return math.log(total)


def _log_moment(run: StoredSums, order: int) -> float:
    """Return the same at a whole order, in closed form."""
    chance, scale = 1 / run.num_sums, 1 / (2 * run.noise_multiplier**2)
    exponents = [
        run.num_looks * log1p_exp(math.log(chance) + log_expm1(j * (j - 1) * scale))
        for j in range(2, order + 1)
    ]
    return log1p_exp(log_sampled_excess(run.sampling_rate, order, exponents))
