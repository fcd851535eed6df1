"""From the scores of two data sets to a lower bound of epsilon that holds with a stated confidence.

(epsilon, delta) means P'(E) <= e^epsilon P(E) + delta for every event E, both ways round. So any
event chosen in advance gives epsilon >= log((P'(E) - delta) / P(E)). The event is "the score is
beyond a threshold". The threshold is chosen on the first half of the trials, and the two
probabilities are estimated on the second half alone: given the threshold, the hits there are
binomial, so a Clopper-Pearson interval covers with at least its stated probability, whatever was
searched on the first half. On the trials that it was chosen on, the best of many thresholds
would look better than it is.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

Scores = npt.NDArray[np.float64]

_BOUNDS = 4  # two directions, two probabilities each
_LEAST_TRIALS = 20


def clopper_pearson_lower(
    hits: npt.NDArray[np.int64] | int, trials: int, error: float
) -> npt.NDArray[np.float64]:
    """Return a lower bound of a probability, wrong with probability at most `error`.

    Args:
        hits: Successes, one number or many.
        trials: Independent trials.
        error: In (0, 1).
    """
    hits = np.asarray(hits)
    quantile = beta.ppf(error, np.maximum(hits, 1), trials - hits + 1)
    return np.asarray(np.where(hits == 0, 0.0, quantile))


def clopper_pearson_upper(
    hits: npt.NDArray[np.int64] | int, trials: int, error: float
) -> npt.NDArray[np.float64]:
    """Return an upper bound of a probability, wrong with probability at most `error`.

    Args:
        hits: Successes, one number or many.
        trials: Independent trials.
        error: In (0, 1).
    """
    return 1 - clopper_pearson_lower(trials - np.asarray(hits), trials, error)


def epsilon_lower_bound(without: Scores, with_extra: Scores, delta: float, error: float) -> float:
    """Return what the scores of independent trials prove about epsilon.

    Args:
        without: Scores on D; infinity for an answer that was an error.
        with_extra: Scores on D', higher if the attack works; as many.
        delta: Of the guarantee.
        error: Probability with which the bound may be wrong, shared among its four probabilities.

    Returns:
        The bound of epsilon, at least 0.

    Raises:
        ValueError: If the numbers of trials differ or are too small to halve, or a score is NaN.
    """
    if len(without) != len(with_extra) or len(without) < _LEAST_TRIALS:
        msg = f"both data sets need the same number of trials, at least {_LEAST_TRIALS}"
        raise ValueError(msg)
    if np.isnan(without).any() or np.isnan(with_extra).any():
        msg = "a score is not a number"
        raise ValueError(msg)
    without, with_extra = _errors_outermost(without, with_extra)
    each = error / _BOUNDS
    forward = _one_direction(without, with_extra, delta, each)
    backward = _one_direction(-with_extra, -without, delta, each)
    return max(0.0, forward, backward)


def _errors_outermost(without: Scores, with_extra: Scores) -> tuple[Scores, Scores]:
    """Move errors to the side of the data set that has more of them in the first half."""
    half = len(without) // 2
    if np.isinf(without[:half]).sum() <= np.isinf(with_extra[:half]).sum():
        return without, with_extra
    return np.where(np.isinf(without), -np.inf, without), np.where(
        np.isinf(with_extra), -np.inf, with_extra
    )


def _one_direction(low: Scores, high: Scores, delta: float, error: float) -> float:
    """Return the bound from the event "score >= threshold", more probable under `high`."""
    half = len(low) // 2
    candidates = np.unique(np.concatenate((low[:half], high[:half])))
    found = _log_ratio(low[:half], high[:half], candidates, delta, error)
    threshold = candidates[np.argmax(found) : np.argmax(found) + 1]
    return float(_log_ratio(low[half:], high[half:], threshold, delta, error)[0])


def _log_ratio(
    low: Scores, high: Scores, thresholds: Scores, delta: float, error: float
) -> npt.NDArray[np.float64]:
    """Return log((TPR_low - delta) / FPR_high) at each threshold; -inf where it says nothing."""
    rarely = clopper_pearson_upper(_at_least(low, thresholds), len(low), error)
    often = clopper_pearson_lower(_at_least(high, thresholds), len(high), error) - delta
    ratio = np.maximum(often, math.ulp(0.0)) / rarely
    return np.where(often > 0, np.log(ratio), -np.inf)


def _at_least(scores: Scores, thresholds: Scores) -> npt.NDArray[np.int64]:
    """Count the scores that are not below each threshold."""
    return len(scores) - np.searchsorted(np.sort(scores), thresholds, side="left")
