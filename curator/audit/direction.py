"""The score of an answer: its projection on the direction that tells the data sets apart best.

The direction is the difference of the two noise-free answers, divided by the covariance that the
noise has in the answer: for an answer that is the release itself, the difference as it is. It is
computed in process with the mechanism's own mathematics, from public canaries, without randomness.
"""

from __future__ import annotations

import hashlib
from typing import cast, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from curator.audit.canaries import Pair
from curator.audit.failing import FailingRecords, Records
from curator.audit.target import Target
from curator.data.sampling import PrivateRecords
from curator.mechanisms.dp_swd import DpSwd
from curator.mechanisms.mechanism import ReleasedOnceMechanism, SampledMechanism
from curator.privacy.event import SamplingRate
from curator.privacy.noise import NoiseSource
from curator.sanitizer.gaussian import Words, discrete_gaussian
from curator.sanitizer.lattice import LATTICE_STD
from curator.sanitizer.post_process import release_values

Vector = npt.NDArray[np.float64]

_EVERY = SamplingRate.at_least(1)
_CUT = 1e-9  # of the covariance's spectrum: float32 answers have no more digits
_BATCH_ROWS = 512
_WORD_BYTES = 8
_NUM_AVERAGED = 256


@final
class ChosenNoise:
    """Adds one standard deviation to one coordinate, or nothing; its words are zeros."""

    def __init__(self, coordinate: int | None) -> None:
        """Choose the coordinate."""
        self._coordinate = coordinate
        self.num_values = 0

    def discrete_gaussian(self, num_values: int) -> Tensor:
        """Return the chosen integers."""
        self.num_values += num_values
        values = torch.zeros(num_values, dtype=torch.int64)
        if self._coordinate is not None:
            values[self._coordinate] = round(LATTICE_STD)
        return values

    def uniform_words(self, num_words: int) -> Tensor:
        """Return zeros."""
        return torch.zeros(num_words, dtype=torch.int64)


@final
class PublicWords:
    """Noise and words from a public hash: what an attacker can compute alone."""

    def __init__(self, number: int) -> None:
        """Begin stream `number`."""
        self._number = number
        self._calls = 0

    def discrete_gaussian(self, num_values: int) -> Tensor:
        """Return draws by the production sampler."""
        return torch.from_numpy(discrete_gaussian(num_values, self._words, self._words))

    def uniform_words(self, num_words: int) -> Tensor:
        """Return the next words of the stream."""
        return torch.from_numpy(self._words(num_words).view(np.int64))

    def _words(self, num_words: int) -> Words:
        self._calls += 1
        name = f"weir audit {self._number} {self._calls}".encode()
        digest = hashlib.shake_256(name).digest(num_words * _WORD_BYTES)
        return np.frombuffer(digest, dtype=np.uint64).copy()


def records_of(pair: Pair, *, with_extra: bool) -> Records:
    """Return the records of D, or of D', as a service holds them.

    Args:
        pair: The canary.
        with_extra: Whether the extra record is in.
    """
    if not with_extra:
        return PrivateRecords(pair.base)
    if pair.fails:
        return FailingRecords(PrivateRecords(pair.base), pair.samples.images_ND.shape[1])
    return PrivateRecords(pair.both)


def best_direction(target: Target, pair: Pair) -> Vector:
    """Return the direction, of length 1 in standard deviations of the noise where it is not zero.

    Args:
        target: What is attacked.
        pair: The canary.

    Returns:
        One number for each number of an answer.
    """
    if isinstance(target.open(), DpSwd):
        return _mean_difference(target, pair)
    quiet = ChosenNoise(None)
    without = _answer(target, pair, records_of(pair, with_extra=False), quiet)
    extra = _answer(target, pair, records_of(pair, with_extra=True), ChosenNoise(None))
    columns = [
        _answer(target, pair, records_of(pair, with_extra=False), ChosenNoise(coordinate)) - without
        for coordinate in range(quiet.num_values)
    ]
    response = np.stack(columns, axis=1)
    inverse = np.linalg.pinv(response @ response.T, rcond=_CUT, hermitian=True)
    direction = inverse @ (extra - without)
    spread = float(np.linalg.norm(response.T @ direction))
    if spread == 0:  # nothing tells them apart, so any fixed projection is as good
        return np.asarray(response.sum(axis=1))
    return np.asarray(direction / spread)


def _mean_difference(target: Target, pair: Pair) -> Vector:
    """Return the mean difference of answers under the same noise, over fresh directions.

    The answer is not linear in its noise and turns with the directions of its step, which are not
    sent: what is left is the part that does not turn.
    """
    total = np.zeros(pair.samples.images_ND.numel())
    for number in range(_NUM_AVERAGED):
        extra, without = (
            _answer(target, pair, records_of(pair, with_extra=more), PublicWords(number))
            for more in (True, False)
        )
        total += extra - without
    length = float(np.linalg.norm(total))
    return total / length if length > 0 else np.ones_like(total)


def _answer(target: Target, pair: Pair, records: Records, noise: NoiseSource) -> Vector:
    """Return a whole answer, every record sampled, under chosen noise."""
    mechanism = target.open()
    if isinstance(mechanism, SampledMechanism):
        batch = records.poisson_batch(_EVERY, mechanism.capacity, noise)
        release = mechanism.gradient(pair.samples, batch, noise)
    else:
        once = cast("ReleasedOnceMechanism", mechanism)
        release = once.gradient(pair.samples, once.setup(records.batches(_BATCH_ROWS), noise))
    return np.asarray(release_values(release).reshape(-1).numpy(), dtype=np.float64)
