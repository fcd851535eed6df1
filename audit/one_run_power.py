"""What one run can show, computed before it: how many guesses to make, and which fault is seen.

Runs are simulated as the mechanism is meant to be, with the noise that is claimed and with a
quarter of it. No answer of a curator is used, so numbers of guesses that are chosen here are fixed
before the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from audit.one_run_attack import Coins, OneRunAttack, Vector
from audit.one_run_bound import Guesses

FAULT = 0.25  # of the noise
_SHARES = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.5, 0.75, 1.0)
_RUNS = 9


@dataclass(frozen=True, kw_only=True, slots=True)
class Power:
    """What is to be expected of one run.

    Attributes:
        numbers: Of guesses, one or two: with which most is to be shown of the noise that is
            claimed, and with which a quarter of it is seen best.
        honest: Median lower bounds by delta, with the noise that is claimed.
        faulty: The same with a quarter of it.
        ceiling: Bounds by delta, if every guess were right.
        share_right: Of the surest tenth of all guesses, with a quarter of the noise.
    """

    numbers: tuple[int, ...]
    honest: Mapping[float, float]
    faulty: Mapping[float, float]
    ceiling: Mapping[float, float]
    share_right: float

    def catches(self, claims: Mapping[float, float]) -> bool:
        """Return whether a quarter of the noise is more likely seen than not."""
        return any(self.faulty[delta] > claim for delta, claim in claims.items())

    def why(self, claims: Mapping[float, float], attack: OneRunAttack, error: float) -> str:
        """Say in words what a quarter of the noise would show, and why it is no more."""
        delta = max(claims, key=lambda one: self.faulty[one] - claims[one])
        shows = (
            f"a quarter of the noise would show epsilon {self.faulty[delta]:.2f} at delta "
            f"{delta:g}, of {claims[delta]:.2f} claimed"
        )
        if self.catches(claims):
            return f"{shows}: it would be seen"
        if all(self.ceiling[one] <= claim for one, claim in claims.items()):
            right = 1 / (1 + math.exp(-min(claims.values())))
            needed = math.ceil(math.log(error) / math.log(right))
            return (
                f"{shows}: it cannot be seen. Even if every guess were right, "
                f"{attack.num_canaries} canaries show no more than {self.ceiling[delta]:.2f}; at "
                f"least {needed} are needed"
            )
        return (
            f"{shows}: it cannot be seen. The surest tenth of the guesses would be right in "
            f"{100 * self.share_right:.0f} % of cases: {attack.shared}"
        )


def power(
    attack: OneRunAttack,
    noise_multiplier: float,
    claims: Mapping[float, float],
    error: float,
    seed: int = 0,
) -> Power:
    """Simulate runs and choose how many guesses to make.

    Args:
        attack: The canaries.
        noise_multiplier: The one that is claimed.
        claims: Epsilon by delta; the smallest delta is that of the run.
        error: With which the bounds may be wrong.
        seed: Of the simulation, which is public.
    """
    rng = np.random.default_rng(seed)
    honest = _rights(attack, noise_multiplier, 1.0, rng)
    faulty = _rights(attack, noise_multiplier, FAULT, rng)
    sizes = sorted({max(1, round(share * attack.num_canaries)) for share in _SHARES})

    def bounds(rights: npt.NDArray[np.int64], size: int, share: float) -> dict[float, float]:
        return {
            delta: _bound(attack, size, int(rights[size - 1]), delta, error * share)
            for delta in claims
        }

    shown = {size: bounds(honest, size, 0.5) for size in sizes}
    seen = {size: bounds(faulty, size, 0.5) for size in sizes}
    least = min(claims)
    most = max(sizes, key=lambda size: (shown[size][least], seen[size][least]))
    margin = max(sizes, key=lambda n: max(seen[n][one] - claims[one] for one in claims))
    numbers = tuple(sorted({most, margin}))
    if len(numbers) == 1:
        shown[most], seen[most] = bounds(honest, most, 1.0), bounds(faulty, most, 1.0)
    everything = attack.num_canaries
    tenth = max(1, everything // 10)
    return Power(
        numbers=numbers,
        honest={one: max(shown[size][one] for size in numbers) for one in claims},
        faulty={one: max(seen[size][one] for size in numbers) for one in claims},
        ceiling={
            one: max(_bound(attack, size, size, one, error) for size in sizes) for one in claims
        },
        share_right=float(faulty[tenth - 1]) / tenth,
    )


def surest(scores: Vector) -> npt.NDArray[np.int64]:
    """Return canaries in the order of how sure a guess is: far from the median score first."""
    return np.asarray(np.argsort(-np.abs(scores - np.median(scores)), kind="stable"))


def right_guesses(scores: Vector, coins: Coins) -> npt.NDArray[np.int64]:
    """Return how many of the surest one, two, ... guesses are right.

    Args:
        scores: Of all canaries, higher for those that seem to be in.
        coins: Which of them are.
    """
    order = surest(scores)
    guesses = scores[order] > np.median(scores)
    return np.asarray(np.cumsum(guesses == coins[order]), dtype=np.int64)


def _rights(
    attack: OneRunAttack, claimed: float, share: float, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return the median, over simulated runs, of how many surest guesses are right."""
    runs = []
    for _ in range(_RUNS):
        coins = rng.integers(0, 2, attack.num_canaries).astype(np.bool_)
        scores = attack.simulated(coins, share * claimed, claimed, rng)
        runs.append(right_guesses(scores, coins))
    return np.asarray(np.median(np.stack(runs), axis=0), dtype=np.int64)


def _bound(attack: OneRunAttack, size: int, right: int, delta: float, error: float) -> float:
    told = Guesses(num_canaries=attack.num_canaries, num_guesses=size, num_right=right)
    return told.epsilon_lower_bound(delta, error)
