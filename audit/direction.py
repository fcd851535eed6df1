"""The score of an answer: its projection on the direction that tells the data sets apart best.

The direction is the difference of the two noise-free answers, divided by the covariance that the
noise has in the answer: for an answer that is the release itself, the difference as it is. It is
computed in process with the mechanism's own mathematics, from public canaries, without randomness.
Where a whole release is downloaded, its target scores it: see `released.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from audit.canaries import Pair
from audit.canary_records import Records, records_of
from audit.noise import ChosenNoise, PublicWords
from audit.target import Statistic, Target
from audit.trial import run_in_process
from curator.privacy.noise import NoiseSource
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.post_process import release_values

Vector = npt.NDArray[np.float64]

_CUT = 1e-9  # of the covariance's spectrum: float32 answers have no more digits
_TOLD = 1e-3  # of the difference; less of it is rounding
_RIDGE = 1e-6  # of the mean variance, for numbers that never change
_NUM_SIMULATED = 256


def statistic_of(target: Target, pair: Pair) -> Statistic:
    """Return what makes a score of a trial's answers: the target's own, or a projection."""
    if target.statistic:
        return target.statistic(target.parameters, pair)
    direction = best_direction(target, pair)
    return lambda answers: float(direction @ answers)


def best_direction(target: Target, pair: Pair) -> Vector:
    """Return the direction, of length 1 in standard deviations of the noise where it is not zero.

    Returns:
        One number for each number of a trial's answers.
    """
    match target.score:
        case "linear":
            return _linear(target, pair)
        case "mean-difference":
            return _mean_difference(target, pair)
        case "discriminant":
            return _discriminant(target, pair)


def _linear(target: Target, pair: Pair) -> Vector:
    """Return the best direction where answers are linear in the noise.

    Of lattice blocks every number has noise of its own, all alike, so one of them is enough.
    """
    quiet, fewer = ChosenNoise(None), records_of(pair, with_extra=False)
    trial = run_in_process(target, pair, fewer, quiet)
    without = values_of(trial.answers)
    extra = _answer(target, pair, records_of(pair, with_extra=True), ChosenNoise(None))
    blocks = [block for answer in trial.answers for block in answer.blocks]
    alike = all(isinstance(block, LatticeBlock) for block in blocks)  # each number has its own
    columns = [
        _answer(target, pair, fewer, ChosenNoise(coordinate)) - without
        for coordinate in range(1 if alike else quiet.num_values)
    ]
    if alike:
        scale = float(np.linalg.norm(columns[0]) * np.linalg.norm(extra - without))
        return (extra - without) / scale if scale > 0 else np.ones_like(without)
    response, difference = np.stack(columns, axis=1), extra - without
    covariance = response @ response.T
    inverse = np.linalg.pinv(covariance, rcond=_CUT, hermitian=True)
    direction = inverse @ difference
    told = difference - covariance @ direction  # what no noise hides
    if np.linalg.norm(told) > _TOLD * np.linalg.norm(difference):
        return np.asarray(told / np.square(told).sum())
    spread = float(np.linalg.norm(response.T @ direction))
    if spread == 0:  # nothing tells them apart, so any fixed projection is as good
        return np.asarray(response.sum(axis=1))
    return np.asarray(direction / spread)


def _mean_difference(target: Target, pair: Pair) -> Vector:
    """Return the mean difference of answers under the same noise, over fresh directions.

    The answer is not linear in its noise and turns with the directions of its step, which are not
    sent: what is left is the part that does not turn.
    """
    without, extra = _simulated(target, pair)
    total = (extra - without).sum(axis=0)
    length = float(np.linalg.norm(total))
    return total / length if length > 0 else np.ones_like(total)


def _discriminant(target: Target, pair: Pair) -> Vector:
    """Return Fisher's linear discriminant of answers under public noise.

    For answers that are not linear in the noise. The covariance is that of the answers, so noise of
    directions that do not tell is left out.
    """
    without, extra = _simulated(target, pair)
    difference = (extra - without).mean(axis=0)
    centred = np.concatenate((without - without.mean(axis=0), extra - extra.mean(axis=0)))
    covariance = centred.T @ centred / len(centred)
    ridge = _RIDGE * np.trace(covariance) / len(covariance)
    direction = np.linalg.solve(covariance + ridge * np.eye(len(covariance)), difference)
    spread = float(np.sqrt(direction @ covariance @ direction))
    return direction / spread if spread > 0 else np.ones_like(direction)


def _simulated(target: Target, pair: Pair) -> tuple[Vector, Vector]:
    """Return answers on D and on D' under the same public noise, a row a trial."""
    without, extra = (
        np.stack(
            [
                _answer(target, pair, records_of(pair, with_extra=more), PublicWords(number))
                for number in range(_NUM_SIMULATED)
            ]
        )
        for more in (False, True)
    )
    return without, extra


def _answer(target: Target, pair: Pair, records: Records, noise: NoiseSource) -> Vector:
    """Return the answers of one trial under chosen noise."""
    return values_of(run_in_process(target, pair, records, noise).answers)


def values_of(answers: Sequence[Release]) -> Vector:
    """Return all numbers of a trial's answers.

    Args:
        answers: In order.
    """
    values = [release_values(answer).reshape(-1) for answer in answers]
    return np.asarray(torch.cat(values).numpy(), dtype=np.float64)
