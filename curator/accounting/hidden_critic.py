"""What GS-WGAN as published costs: one hidden critic of K answers for all B images of a step.

Its accountant treats the B images as B releases that each draw a critic anew. One critic is drawn,
so a step is one release that moves by 2 C sqrt(B) with probability 1 / K. Three numbers say what
that is worth; they are information about a published claim, and nothing is offered at any of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from curator.accounting.profile import Floats, Profile, composed_epsilon
from curator.accounting.sliced_pld import add_profile, remove_profile

_COARSEST, _FINEST = 1e-2, 1e-5  # spacing of losses
_PRECISION: Final = 1e-5
_ROUNDS: Final = 4
_MOST: Final = 1 << 20
_LEAST_NOISE: Final = 1e-2
_LARGEST_SHIFT: Final = 14.0  # so that one step's losses stay below what a profile looks at


@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenCritic:
    """A published run: `noise_multiplier` is over 2 C, the sensitivity for one image."""

    num_critics: int
    num_samples: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range.
        """
        for name, value in (("num_critics", self.num_critics), ("num_samples", self.num_samples)):
            if type(value) is not int or not 1 <= value <= _MOST:
                msg = f"{name} must be an integer in [1, {_MOST}]"
                raise ValueError(msg)
        z = self.noise_multiplier
        if type(z) not in {int, float} or not _LEAST_NOISE <= z <= _MOST:
            msg = f"noise_multiplier must be a number in [{_LEAST_NOISE:g}, {_MOST}]"
            raise ValueError(msg)
        if self.shift > _LARGEST_SHIFT:
            msg = f"sqrt(num_samples) / noise_multiplier must be at most {_LARGEST_SHIFT:g}"
            raise ValueError(msg)

    @property
    def shift(self) -> float:
        """How far a step moves when the critic is drawn, in standard deviations of its noise."""
        return math.sqrt(self.num_samples) / self.noise_multiplier


_PUBLISHED: Final = HiddenCritic(num_critics=1000, num_samples=32, noise_multiplier=1.07)
_PUBLISHED_STEPS: Final = 20_000
_PUBLISHED_EPSILON: Final = 10.0
_PUBLISHED_DELTA: Final = 1e-5


@dataclass(frozen=True, kw_only=True, slots=True)
class HiddenCriticBounds:
    """Epsilons of a published run.

    Attributes:
        claimed: By the paper; None for other parameters than the paper's.
        least: Exact for critics that a run may have (all others answer alike, and have no memory):
            no analysis from clipping, noise and secrecy can say less.
        most_decoupled: Holds if no critic's state depends on which ones were drawn.
        most: Holds as published, where it does: whoever sees the answers may know the draws.
    """

    claimed: float | None
    least: float
    most_decoupled: float
    most: float


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

    def removed(losses: Floats) -> Floats:
        return remove_profile(losses, rate, shifts, weights)

    def added(losses: Floats) -> Floats:
        return add_profile(losses, rate, shifts, weights)

    def revealed(losses: Floats) -> Floats:
        return rate * remove_profile(losses, 1.0, shifts, weights)

    as_published = (run, num_steps, delta) == (_PUBLISHED, _PUBLISHED_STEPS, _PUBLISHED_DELTA)
    return HiddenCriticBounds(
        claimed=_PUBLISHED_EPSILON if as_published else None,
        least=max(
            _composed(removed, added, num_steps, delta),
            _composed(added, removed, num_steps, delta),
        ),
        most_decoupled=_composed(removed, removed, num_steps, delta),
        most=_composed(revealed, revealed, num_steps, delta),
    )


def _composed(forward: Profile, backward: Profile, num_steps: int, delta: float) -> float:
    """Return an epsilon on losses whose spacing fits it: rounding them adds variance each step."""
    interval, epsilon = _COARSEST, math.inf
    for _ in range(_ROUNDS):
        epsilon = composed_epsilon(forward, backward, num_steps, delta, interval)
        fitting = epsilon * math.sqrt(12 * _PRECISION / (num_steps * -math.log(delta)))
        if interval <= max(_FINEST, 1.5 * fitting):
            break
        interval = max(_FINEST, fitting)
    return epsilon
