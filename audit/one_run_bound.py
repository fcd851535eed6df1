"""From guesses about the coins of one run to a lower bound of epsilon.

Each of m canaries is in or out by a fair coin. After one run the attacker guesses the coins of r
canaries, r fixed beforehand, and V guesses are right. Write p_c for P(V = c), and let the mechanism
with the guessing be (epsilon, delta) private when one canary is added or removed. Take any set C of
counts, and for each canary the event "it is guessed right, and V is in C". Under the neighbour
whose coin is turned, the same guesses are wrong about this canary and V is smaller by one. Summed
over the canaries, and averaged over all coins,

    sum over c in C of  c p_c - e^epsilon (r - c + 1) p_(c-1)  is at most  m delta.        (1)

For W binomial with r trials of probability e^epsilon / (1 + e^epsilon), b_c = P(W = c), each term
of (1) is zero. Multiply the terms by y_c = [P(W >= max(c, v)) - P(W >= v) P(W >= c)] / (c b_c),
which lies between 0 and y_v, and add: everything cancels but

    P(V >= v) - P(W >= v)  <=  m delta y_v,   y_v = P(W >= v) P(W < v) / (v b_v).           (2)

y_c grows up to v, since P(W < c) / (c b_c) = [P(W < c-1) / b_(c-1) + 1] / (e^epsilon (r - c + 1)),
and falls from there on, since P(W >= c) / b_c does for log-concave b.

For delta = 0 this is the bound of [steinke:23], which has a larger term in delta. As (1) holds for
every (epsilon, delta) of a mechanism's curve and all of it is about the one number V, bounds at
several deltas hold together, with no share of the error for each: the refinement of
[mahloujifar:25] to whole curves, by its supporting lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import betainc, betaln

_MOST_EPSILON = 60.0
_HALVINGS = 50
_LARGEST_LOGARITHM = 700.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Guesses:
    """What came of one run.

    Attributes:
        num_canaries: m, those whose coins were tossed.
        num_guesses: r, fixed before the run, from 1 to m.
        num_right: V, of the guesses.
    """

    num_canaries: int
    num_guesses: int
    num_right: int

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If they do not fit each other.
        """
        if not (
            1 <= self.num_guesses <= self.num_canaries and 0 <= self.num_right <= self.num_guesses
        ):
            msg = "at least one guess, no more guesses than canaries nor right ones than guesses"
            raise ValueError(msg)

    def chance(self, epsilon: float, delta: float) -> float:
        """Return an upper bound of the probability of so many right guesses, or more.

        Args:
            epsilon: Of a mechanism, at least 0.
            delta: In [0, 1).

        Returns:
            At most 1; it holds whatever the mechanism and the attack.
        """
        if self.num_right == 0:
            return 1.0
        right, wrong = self.num_right, self.num_guesses - self.num_right
        rightly, wrongly = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
        many = float(betainc(right, wrong + 1, rightly))  # P(W >= v)
        few = float(betainc(wrong + 1, right, wrongly))  # P(W < v)
        if delta == 0:
            return many
        log_exactly = (
            right * math.log(rightly) + wrong * math.log(wrongly) - betaln(right, wrong + 1)
        )  # of v P(W = v)
        log_slope = math.log(max(many, math.ulp(0.0))) - log_exactly
        most = self.num_canaries * delta * few * math.exp(min(log_slope, _LARGEST_LOGARITHM))
        return min(1.0, many + most)

    def epsilon_lower_bound(self, delta: float, error: float) -> float:
        """Return what the guesses prove: every smaller epsilon would make them too improbable.

        A mechanism with a smaller epsilon satisfies every larger one, so whatever epsilon has a
        small enough chance refutes all below it.

        Args:
            delta: In [0, 1).
            error: Probability in (0, 1) with which the bound may be wrong.

        Returns:
            The bound, at least 0.

        Raises:
            ValueError: If a number is out of range.
        """
        if not (0 <= delta < 1 and 0 < error < 1):
            msg = "delta must be in [0, 1) and error in (0, 1)"
            raise ValueError(msg)
        low, high = 0.0, _MOST_EPSILON
        if self.chance(low, delta) > error:
            return 0.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self.chance(middle, delta) <= error:
                low = middle
            else:
                high = middle
        return low
