"""What attacks by nearness achieve against the private images: for those who may see them.

Every figure here is computed from private images, without noise, and is charged to no budget.

Shape legend: S synthetic images, K canaries that were drawn, D values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from sklearn.neighbors import NearestNeighbors

from analyst.errors import ImageFileError
from analyst.evaluation.attack_figures import CONFIDENCE, Figure, Interval, Shuffled, half
from analyst.evaluation.image_file import LabelledImages, load_images
from analyst.evaluation.membership import (
    LEAST_RECORDS,
    MOST_RECORDS,
    MOST_SYNTHETIC,
    SHUFFLES,
    Membership,
    infer_membership,
    num_copies,
)
from audit.one_run_bound import Guesses
from curator.data.canaries import Canaries, read_canaries
from curator.data.levels import Levels
from curator.data.store import StoredImages, open_store
from curator.privacy.facts import DatasetFacts
from curator.sources.convert import eight_bits

_MOST_IMAGES: Final = 1_000_000  # of a file, which an analyst may have made
_ROWS_AT_ONCE: Final = 4096
_MOST_KNOWN: Final = 0.01  # of the held-out images that may be in the data set by chance
_GUESSED: Final = 4  # a fourth of the canaries is guessed to be in, and a fourth out


class NoEvidence(ValueError):
    """It cannot be had; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryFigures:
    """What synthetic images tell of the canaries.

    Attributes:
        num_canaries: For whom coins were tossed.
        num_in: Of them, in the data set.
        exposure: Mean over those that are in: log2 of how far up each is among those that are out,
            ordered by nearness to a synthetic image, beside other tosses of as many coins. None if
            all are in, or none is.
        right: Of the guesses, one for half of them; 1/2 by chance.
        epsilon: Every smaller one at `delta` is refuted, with a probability of error of 5 percent.
        most: The same if all guesses were right: so few canaries can refute no larger one.
        delta: The data set's.
    """

    num_canaries: int
    num_in: int
    exposure: Shuffled | None
    right: Interval
    epsilon: float
    most: float
    delta: float

    def figures(self) -> list[Figure]:
        """Return what was measured, for people."""
        num_guesses = 2 * max(1, self.num_canaries // _GUESSED)
        by = half(num_guesses)
        bound = f"{self.epsilon:.2f}; so few can show at most {self.most:.2f}"
        figures = [
            Figure("planted test images: drawn, and in", f"{self.num_canaries:,}, {self.num_in:,}"),
            Figure("in or out guessed rightly by nearness", self.right.percent(), by, "above"),
            Figure(f"lower bound of epsilon at delta {self.delta:g}", bound, "0", "above"),
        ]
        if self.exposure is not None:
            value, chance = f"{self.exposure.value:.3f}", self.exposure.chance.plain()
            figures.append(Figure("exposure of those that are in, bits", value, chance, "above"))
        return figures


@dataclass(frozen=True, kw_only=True, slots=True)
class Attacks:
    """All that was computed from private images: it must stay where they are."""

    membership: Membership | None
    canaries: CanaryFigures | None
    notes: tuple[str, ...]  # what was not measured, and what would be needed

    @property
    def alarms(self) -> tuple[str, ...]:
        """What is above chance by more than its interval."""
        found = () if self.membership is None else self.membership.alarms
        if self.canaries is not None:
            guessed = self.canaries.right.is_above(0.5)
            exposure = self.canaries.exposure
            exposed = exposure is not None and exposure.value > exposure.chance.high
            found += ("the coins of canaries are guessed",) * guessed
            found += ("canaries that are in are exposed",) * exposed
        return found

    def refutes(self, epsilon: float) -> bool:
        """Whether canaries prove more than was promised."""
        return self.canaries is not None and self.canaries.epsilon > epsilon

    def figures(self) -> list[Figure]:
        """Return everything that was measured."""
        parts = [part for part in (self.membership, self.canaries) if part is not None]
        return [figure for part in parts for figure in part.figures()]


def attack(
    folder: Path, facts: DatasetFacts, synthetic: npt.NDArray[np.uint8], held_out: Path | None
) -> Attacks:
    """Attack the stored images of a data set.

    Args:
        folder: Where they are stored.
        facts: Of the data set.
        synthetic: Images of a generator, of the data set's shape.
        held_out: A file of real images that were never in it; None if there is none.

    Raises:
        NoEvidence: If the files do not fit.
        SourceError: If what is stored is damaged.
    """
    stored, canaries, made = open_store(folder), read_canaries(folder), _flat(synthetic)
    notes, guessed, membership = list[str](), None, None
    real = len(stored.levels)
    if canaries is None:
        notes.append(
            "planted test images: there are none, as none were planted by 'curator dataset add "
            "--canaries K'"
        )
    else:
        real -= int(canaries.is_in.sum())  # they are behind the images of the source
        levels = eight_bits(canaries.levels, facts.max_level)
        guessed = attack_canaries(made, replace(canaries, levels=levels), facts.delta)
        if guessed.exposure is None:
            notes.append("exposure: by chance all of the planted test images are in, or none is")
    if held_out is None:
        notes.append(
            "images used beside others: give --held-out FILE.npz, real images of the same kind "
            "that were never in the data set"
        )
    else:
        others = _flat(fitting(held_out, "test", facts).images)
        membership = _membership(made, others, stored, real, facts)
    return Attacks(membership=membership, canaries=guessed, notes=tuple(notes))


def _membership(
    made: Levels, held_out: Levels, stored: StoredImages, real: int, facts: DatasetFacts
) -> Membership:
    """Infer membership.

    Raises:
        NoEvidence: If there are too few images, or held-out ones are in the data set.
    """

    def members() -> Iterator[Levels]:
        for start in range(0, real, _ROWS_AT_ONCE):
            rows = stored.levels[start : min(start + _ROWS_AT_ONCE, real)]
            yield eight_bits(rows, facts.max_level)

    firsts = np.arange(real)
    if stored.groups is not None:  # one image of each person
        firsts = np.unique(stored.groups[:real], return_index=True)[1]
    if min(len(firsts), len(held_out)) < LEAST_RECORDS:
        msg = (
            f"membership needs at least {LEAST_RECORDS} units in the data set and as many held-out "
            "images: leave --held-out out, or give more of them"
        )
        raise NoEvidence(msg)
    known = num_copies(held_out, members())
    if known > _MOST_KNOWN * len(held_out):
        msg = (
            f"{known:,} of the held-out images are in the data set itself: give --held-out images "
            "that never were"
        )
        raise NoEvidence(msg)
    drawn = np.random.default_rng(0).permutation(firsts)[:MOST_RECORDS]
    rows = eight_bits(stored.levels[np.sort(drawn)], facts.max_level)
    return infer_membership(made, rows, held_out, copies=num_copies(made, members()))


def fitting(path: Path, part: Literal["train", "test"], facts: DatasetFacts) -> LabelledImages:
    """Return images of the data set's shape out of a file.

    Args:
        path: The file.
        part: Which, where it has both.
        facts: Of the data set.

    Raises:
        NoEvidence: If they have another one, or the file cannot be read.
    """
    try:
        images = load_images(path, part=part)
    except ImageFileError as problem:
        msg = f"{problem}. {problem.remedy}"
        raise NoEvidence(msg) from None
    if len(images.labels) > _MOST_IMAGES:
        msg = f"{path}: {len(images.labels):,} images; give {_MOST_IMAGES:,} at the most"
        raise NoEvidence(msg)
    shape = (facts.channels, facts.height, facts.width)
    if images.images.shape[1:] != shape or not len(images.labels):
        msg = f"{path}: its images have shape {images.images.shape[1:]}, the data set's {shape}"
        raise NoEvidence(msg)
    return images


def attack_canaries(
    synthetic_SD: npt.NDArray[Any], canaries: Canaries, delta: float
) -> CanaryFigures:
    """Guess the coins by nearness to synthetic images.

    Args:
        synthetic_SD: Bytes; the first 10,000 are looked at.
        canaries: All candidates, in bytes as well.
        delta: Of the claim.
    """
    count = len(canaries.is_in)
    index = NearestNeighbors(algorithm="brute").fit(_unit(synthetic_SD[:MOST_SYNTHETIC]))
    distances, _ = index.kneighbors(_unit(_flat(canaries.levels)), n_neighbors=1)
    distance_K = distances[:, 0]
    order = np.argsort(distance_K, kind="stable")
    each = max(1, count // _GUESSED)
    right = int(canaries.is_in[order[:each]].sum() + (~canaries.is_in[order[-each:]]).sum())
    bounds = [
        Guesses(num_canaries=count, num_guesses=2 * each, num_right=number).epsilon_lower_bound(
            delta, 1 - CONFIDENCE
        )
        for number in (right, 2 * each)
    ]
    return CanaryFigures(
        num_canaries=count,
        num_in=int(canaries.is_in.sum()),
        exposure=_exposure(distance_K, canaries.is_in),
        right=Interval.of_count(right, 2 * each),
        epsilon=bounds[0],
        most=bounds[1],
        delta=delta,
    )


def _exposure(distance_K: npt.NDArray[np.float64], is_in: npt.NDArray[np.bool_]) -> Shuffled | None:
    """Return the mean exposure, beside that of coins tossed anew; None if all fell alike."""
    if is_in.all() or not is_in.any():
        return None
    rng = np.random.default_rng(0)
    shuffled = [_mean_exposure(distance_K, rng.permutation(is_in)) for _ in range(SHUFFLES)]
    return Shuffled.among(_mean_exposure(distance_K, is_in), np.array(shuffled))


def _mean_exposure(distance_K: npt.NDArray[np.float64], is_in: npt.NDArray[np.bool_]) -> float:
    """Return the mean of log2 of the outsiders, and itself, over each insider's rank among them."""
    outside = np.sort(distance_K[~is_in])
    nearer = np.searchsorted(outside, distance_K[is_in], side="left")
    as_near = np.searchsorted(outside, distance_K[is_in], side="right") - nearer
    return float(np.mean(np.log2(len(outside) + 1) - np.log2(1 + nearer + as_near / 2)))


def _flat(images: Levels) -> Levels:
    return images.reshape(len(images), -1)


def _unit(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    scaled: npt.NDArray[np.float64] = np.asarray(rows, np.float64) / 255
    return scaled
