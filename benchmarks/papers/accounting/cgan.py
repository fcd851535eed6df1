"""What DP-CGAN as published costs: its accountant is told of more noise than there is.

The released code stops when its Renyi accountant says 9.6. Three numbers correct it step by step;
they are information about a published claim, and nothing is offered at any of them. Even the last
is generous: batches are shuffled, not sampled as the accountant believes, and generated rows are
conditioned on labels of records without any noise, for which no epsilon holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from curator.accounting.profile_composition import fitted_epsilon, mixture_profiles
from curator.accounting.sampled_rdp import sampled_gaussian_rdp_at

_MOST: Final = 1 << 20
_ORDERS: Final = tuple(1 + i / 50 for i in range(1, 3000))
_SOME: Final = 50  # every so many of them are looked at first
_CLAIMED: Final = 9.6
_LEAST_JOINT: Final = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedCgan:
    """A run of the released code; each of `num_tensors` gradients is clipped and noised alone.

    `noise_multiplier` is noise standard deviation over `clip_norm`, of each of them.
    """

    sampling_rate: float
    noise_multiplier: float
    clip_norm: float
    num_tensors: int

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range.
        """
        for name in ("sampling_rate", "noise_multiplier", "clip_norm"):
            value = getattr(self, name)
            if type(value) not in {int, float} or not 1e-6 <= value <= _MOST:
                msg = f"{name} must be a number in [1e-06, {_MOST}]"
                raise ValueError(msg)
        if type(self.num_tensors) is not int or not 1 <= self.num_tensors <= _MOST:
            msg = f"num_tensors must be an integer in [1, {_MOST}]"
            raise ValueError(msg)
        if not self.sampling_rate < 1 or self.joint_noise_multiplier < _LEAST_JOINT:
            msg = f"sampling_rate must be below 1, joint noise over clip norm above {_LEAST_JOINT}"
            raise ValueError(msg)

    @property
    def joint_noise_multiplier(self) -> float:
        """Noise over what one record moves all tensors together."""
        return self.noise_multiplier / math.sqrt(self.num_tensors)


_PUBLISHED: Final = PublishedCgan(
    sampling_rate=0.01, noise_multiplier=1.12, clip_norm=1.1, num_tensors=4
)
_PUBLISHED_STEPS: Final = 30_304
_PUBLISHED_DELTA: Final = 1e-5


@dataclass(frozen=True, kw_only=True, slots=True)
class CganBounds:
    """Epsilons of such a run, all of them for batches that are sampled.

    Attributes:
        claimed: By the paper; None for other parameters than the paper's.
        reported: What its accountant prints, which is told that noise is `clip_norm` times more.
        one_tensor: As if all gradients were clipped as one vector, with the noise that there is.
        renyi: With every tensor clipped apart, by the paper's conversion from Renyi divergence.
        losses: The same, by privacy loss distributions: the worst case, exactly.
    """

    claimed: float | None
    reported: float
    one_tensor: float
    renyi: float
    losses: float


def cgan_bounds(run: PublishedCgan, num_steps: int, delta: float) -> CganBounds:
    """Return what a published run costs, declared in advance.

    Args:
        run: Its parameters.
        num_steps: Updates of the discriminator.
        delta: Of all of them.

    Returns:
        Epsilons within about 1e-3 of the exact ones, relatively.

    Raises:
        ValueError: If there are absurdly many steps.

    References:
        [torkzadehmahani:19]; [mironov:19]; [doroshenko:22].
    """
    if not 1 <= num_steps <= _MOST:
        msg = f"num_steps must be in [1, {_MOST}] for this mechanism"
        raise ValueError(msg)
    rate, joint = run.sampling_rate, run.joint_noise_multiplier
    profiles = mixture_profiles(rate, np.array([1 / joint]), np.array([1.0]))

    def renyi(noise_multiplier: float) -> float:
        def at(place: int) -> float:
            order = _ORDERS[place]
            divergence = num_steps * sampled_gaussian_rdp_at(rate, noise_multiplier, order)
            return divergence - math.log(delta) / (order - 1)

        # it falls, then rises: some orders say where to look at all of them
        best = min(range(0, len(_ORDERS), _SOME), key=at)
        return min(map(at, range(max(0, best - _SOME), min(len(_ORDERS), best + _SOME))))

    as_published = (run, num_steps, delta) == (_PUBLISHED, _PUBLISHED_STEPS, _PUBLISHED_DELTA)
    return CganBounds(
        claimed=_CLAIMED if as_published else None,
        reported=renyi(run.noise_multiplier * run.clip_norm),
        one_tensor=renyi(run.noise_multiplier),
        renyi=renyi(joint),
        losses=max(
            fitted_epsilon(profiles.remove, profiles.add, num_steps, delta),
            fitted_epsilon(profiles.add, profiles.remove, num_steps, delta),
        ),
    )
