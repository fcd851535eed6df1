"""Release how many of a public number of voters chose each option, every voter bounded alone.

A voter answers every question with one option or none, whatever else it says: its ballot is read by
comparing integers, so one voter moves the counts by a fixed distance and no clipping is needed.
Counts are scaled to the fine lattice of `averaged.py` and noised there as integers.

Shape legend: K voters, k of them at a time, Q questions, O options.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from curator.privacy.event_numbers import check_noise_multiplier
from curator.privacy.noise import NoiseSource
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.averaged import FINE_STD, fine_noise

MAX_VOTERS: Final = 1 << 12  # counts of this many, scaled by at most FINE_STD < 2^24, fit int64
MAX_COUNTS: Final = 1 << 22  # of one release: questions times options
_MAX_ENTRIES: Final = 1 << 22  # of a table of answers: voters at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class Ballot:
    """What every voter is asked; all of it is public.

    With one option a question is 'yes or nothing', and two answers to it are at most 1 apart; with
    more of them a voter that changes its mind moves two counts, which is sqrt(2).
    """

    num_voters: int
    num_questions: int
    num_options: int

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            ValueError: If one is out of range.
        """
        sizes = (self.num_voters, self.num_questions, self.num_options)
        if any(type(size) is not int or size < 1 for size in sizes):
            msg = "voters, questions and options must be positive integers"
            raise ValueError(msg)
        too_many = self.num_questions * self.num_options > MAX_COUNTS
        if self.num_voters > MAX_VOTERS or too_many:
            msg = "too many voters, questions or options"
            raise ValueError(msg)

    @property
    def squared_sensitivity(self) -> int:
        """Bound on the squared distance that one voter moves all counts together."""
        return self.num_questions * min(self.num_options, 2)


def count_scale(ballot: Ballot, noise_multiplier: float) -> int:
    """Return the largest integer by which counts may be multiplied before noise of `FINE_STD`.

    Returns:
        s >= 1 with FINE_STD / (s sqrt(squared_sensitivity)) >= noise_multiplier, in exact integers.

    Raises:
        ValueError: If the multiplier is out of range, or no lattice point is left.
    """
    check_noise_multiplier(noise_multiplier)
    numerator, denominator = float(noise_multiplier).as_integer_ratio()
    most = (FINE_STD * denominator) ** 2 // (numerator**2 * ballot.squared_sensitivity)
    scale = min(math.isqrt(most), FINE_STD)
    if scale < 1:
        msg = "noise_multiplier is too large for the lattice"
        raise ValueError(msg)
    return scale


def release_votes(
    compute: Callable[[], Iterable[Tensor]],
    *,
    ballot: Ballot,
    noise_multiplier: float,
    noise: NoiseSource,
) -> Release:
    """Collect all ballots and return the noised counts.

    What raises, or has another shape, makes every count zero, noised like any other.

    Args:
        compute: Yields int64 (k, Q) for the voters in their order: the option that each chooses;
            any number that is not an option is a silence. Everything private is inside.
        ballot: What is asked.
        noise_multiplier: Noise standard deviation over the sensitivity.
        noise: Secret randomness.

    Returns:
        A release of one lattice block (Q, O), in votes.

    Raises:
        ValueError: If the multiplier is out of range.

    Privacy:
        If neighbours differ in one voter's answers alone, the sensitivity is the root of
        `ballot.squared_sensitivity`, whatever that voter answers. Proof: pate_gan.md, lemma 1.

    References:
        [papernot:18], with noise on every count and no test of the data.
    """
    scale = count_scale(ballot, noise_multiplier)
    counts = _counts(compute, ballot)
    drawn = fine_noise(noise, counts.numel()).reshape(counts.shape)
    return Release(blocks=(LatticeBlock(integers=counts * scale + drawn, grid=1 / scale),))


def _counts(compute: Callable[[], Iterable[Tensor]], ballot: Ballot) -> Tensor:
    """Return the counts (Q, O), or zeros; never raises."""
    zeros = torch.zeros((ballot.num_questions, ballot.num_options), dtype=torch.int64)
    try:
        counts, num_seen = zeros.clone(), 0
        for part in compute():
            if part.dtype != torch.int64 or part.shape[1:] != (ballot.num_questions,):
                return zeros
            counts += _tally(part.detach().cpu(), ballot.num_options)
            num_seen += len(part)
    except Exception:  # noqa: BLE001 - an abort would be an answer that is not noised
        return zeros
    return counts if num_seen == ballot.num_voters else zeros


def _tally(answers_kQ: Tensor, num_options: int) -> Tensor:
    """Return how many of some voters chose each option: (Q, O), as much work for any answers."""
    options_O = torch.arange(num_options)
    at_once = max(1, _MAX_ENTRIES // (answers_kQ.shape[1] * num_options))
    counts_QO = torch.zeros((answers_kQ.shape[1], num_options), dtype=torch.int64)
    for some_kQ in torch.split(answers_kQ, at_once):
        counts_QO += (some_kQ.unsqueeze(2) == options_O).sum(dim=0)
    return counts_QO
