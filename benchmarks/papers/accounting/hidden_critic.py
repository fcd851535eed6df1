"""What published methods cost in which one of K critics answers a step.

The accountant of GS-WGAN treats the B images as B releases that each draw a critic anew. One critic
is drawn, so a step is one release that moves by 2 C sqrt(B) with probability 1 / K. In its
federated form the server draws, and knows. Adversarial DP-Sinkhorn clips all images together, which
is right, and relies on the secrecy of a draw that its extractors remember. These numbers are
information about published claims, and nothing is offered at any of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import log_ndtr

from curator.accounting.profile_composition import (
    Floats,
    fitted_epsilon,
    mixture_profiles,
    remove_profile,
)

_PRECISION: Final = 1e-5
_MOST: Final = 1 << 20
_LEAST_NOISE: Final = 1e-2
_LARGEST_SHIFT: Final = 14.0  # so that one step's losses stay below what a profile looks at


@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenCritic:
    """A published run: `noise_multiplier` is over 2 C, the sensitivity for one image.

    `num_samples` images are clipped apart; of images that are clipped together there is one.
    `num_replies` answers of a step are by the same critic. `is_drawn_in_secret` is whether nobody
    who sees the answers knows who answered.
    """

    num_critics: int
    num_samples: int
    noise_multiplier: float
    num_replies: int = 1
    is_drawn_in_secret: bool = True

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range.
        """
        for name in ("num_critics", "num_samples", "num_replies"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= _MOST:
                msg = f"{name} must be an integer in [1, {_MOST}]"
                raise ValueError(msg)
        z = self.noise_multiplier
        if type(z) not in {int, float} or not _LEAST_NOISE <= z <= _MOST:
            msg = f"noise_multiplier must be a number in [{_LEAST_NOISE:g}, {_MOST}]"
            raise ValueError(msg)
        if self.shift > _LARGEST_SHIFT:
            msg = (
                "sqrt(num_samples num_replies) / noise_multiplier must be at most "
                f"{_LARGEST_SHIFT:g}"
            )
            raise ValueError(msg)

    @property
    def shift(self) -> float:
        """How far a step moves when the critic is drawn, in standard deviations of its noise."""
        return math.sqrt(self.num_samples * self.num_replies) / self.noise_multiplier


@dataclass(frozen=True, kw_only=True, slots=True)
class _Published:
    """A run, and what is claimed of it or follows from its authors' accountant."""

    run: HiddenCritic
    num_steps: int
    what: str
    epsilon: float


_DELTA: Final = 1e-5
_PUBLISHED: Final = (
    _Published(
        run=HiddenCritic(num_critics=1000, num_samples=32, noise_multiplier=1.07),
        num_steps=20_000,
        what=(
            "GS-WGAN on MNIST (Chen et al., NeurIPS 2020): claimed 10; its accountant draws a "
            "critic for each image"
        ),
        epsilon=10.0,
    ),
    _Published(
        run=HiddenCritic(
            num_critics=866, num_samples=32, noise_multiplier=1.07, is_drawn_in_secret=False
        ),
        num_steps=30_000,
        what=(
            "federated GS-WGAN (Chen et al., NeurIPS 2020): 14.97 by its accountant, which hides "
            "the client from the server that draws it"
        ),
        epsilon=14.97,
    ),
    _Published(
        run=HiddenCritic(num_critics=1200, num_samples=1, noise_multiplier=1.1),
        num_steps=480_000,
        what=(
            "adversarial DP-Sinkhorn on MNIST (Cao et al., 2021): 6.70 by its accountant, whose "
            "premise extractors that remember their draws do not meet"
        ),
        epsilon=6.70,
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenCriticBounds:
    """Epsilons of a published run.

    Attributes:
        published: What is known of a paper's run; None for other parameters than a paper's.
        claimed: Its epsilon there.
        least: Exact for critics that a run may have (all others answer alike, and have no memory):
            no analysis from clipping, noise and secrecy can say less.
        most_decoupled: Holds if no critic's state depends on which ones were drawn.
        most: Holds as published: whoever sees the answers may know the draws. Exact if they do.
        in_public_rounds: If critics answered in a public round instead; exact.
        is_drawn_in_secret: Whether the draws are secret at all; else `most` is what it costs.
    """

    published: str | None
    claimed: float | None
    least: float
    most_decoupled: float
    most: float
    in_public_rounds: float
    is_drawn_in_secret: bool


def hidden_critic_bounds(run: HiddenCritic, num_steps: int, delta: float) -> HiddenCriticBounds:
    """Return what a published run costs, declared in advance.

    Args:
        run: Its parameters.
        num_steps: Updates of the generator.
        delta: Of all of them.

    Returns:
        Epsilons within about 1e-3 of the exact ones, relatively.

    Raises:
        ValueError: If there are absurdly many steps.

    References:
        [chen:20]; [balle:18], theorem 2; [doroshenko:22].
    """
    if not 1 <= num_steps <= _MOST:
        msg = f"num_steps must be in [1, {_MOST}] for this mechanism"
        raise ValueError(msg)
    rate = 1.0 / run.num_critics
    shifts, weights = np.array([run.shift]), np.array([1.0])

    profiles = mixture_profiles(rate, shifts, weights)

    def revealed(losses: Floats) -> Floats:
        return rate * remove_profile(losses, 1.0, shifts, weights)

    known = next(
        (one for one in _PUBLISHED if (one.run, one.num_steps, _DELTA) == (run, num_steps, delta)),
        None,
    )
    rounds = -(-num_steps // run.num_critics)
    return HiddenCriticBounds(
        published=None if known is None else known.what,
        claimed=None if known is None else known.epsilon,
        least=max(
            fitted_epsilon(profiles.remove, profiles.add, num_steps, delta),
            fitted_epsilon(profiles.add, profiles.remove, num_steps, delta),
        ),
        most_decoupled=fitted_epsilon(profiles.remove, profiles.remove, num_steps, delta),
        most=fitted_epsilon(revealed, revealed, num_steps, delta),
        in_public_rounds=gaussian_epsilon(run.shift * math.sqrt(rounds), delta),
        is_drawn_in_secret=run.is_drawn_in_secret,
    )


def gaussian_epsilon(shift: float, delta: float) -> float:
    """Return the exact epsilon of a Gaussian release.

    Args:
        shift: Sensitivity over noise.
        delta: In (0, 1).
    """

    def is_enough(epsilon: float) -> bool:
        upper = float(log_ndtr(shift / 2 - epsilon / shift))
        lower = epsilon + float(log_ndtr(-shift / 2 - epsilon / shift))
        return lower >= upper or upper + math.log(-math.expm1(lower - upper)) <= math.log(delta)

    low, high = 0.0, 1.0
    while not is_enough(high):
        low, high = high, 2 * high
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
