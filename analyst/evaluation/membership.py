"""Membership inference by synthetic images alone: do they lie nearer to what was learned from?

Members are images that a generator may have learned from, held-out ones are of the same kind and
were not learned from. Every figure has an interval, and what it would be if nothing were learned of
single images. All of it is what one simple attack achieves, never a proof that no other does more:
that is the guarantee's work.

Where members are private, every figure is computed from private images, without noise and charged
to no budget: whoever calls this on them must keep the answer inside.

Shape legend: S synthetic images, M members, H held-out images, D values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri
from sklearn.metrics import pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors

Rows = npt.NDArray[Any]

MOST_SYNTHETIC: Final = 10_000
MOST_RECORDS: Final = 5_000
LEAST_RECORDS: Final = 40  # members, and held-out ones
CONFIDENCE: Final = 0.95
FALSE_ALARMS: Final = 0.01


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure, and what holds it with a probability of 95 percent."""

    value: float
    low: float
    high: float
    counts: str = ""  # of a proportion: how many of how many

    @classmethod
    def of_count(cls, hits: int, trials: int) -> Interval:
        """Return a proportion with the interval of Clopper and Pearson.

        Args:
            hits: Of the trials, which are independent.
            trials: At least 1.

        References:
            [clopper:34].
        """
        side = (1 - CONFIDENCE) / 2
        low = float(betaincinv(hits, trials - hits + 1, side)) if hits else 0.0
        high = float(betaincinv(hits + 1, trials - hits, 1 - side)) if hits < trials else 1.0
        return cls(hits / trials, low, high, f"{hits:,} of {trials:,}")

    @classmethod
    def of_share(cls, share: float, effective: float) -> Interval:
        """Return a weighted proportion with Wilson's interval.

        Args:
            share: In [0, 1].
            effective: How many equal weights would be worth as much.

        References:
            [wilson:27].
        """
        z = float(ndtri((1 + CONFIDENCE) / 2))
        middle = (share + z * z / (2 * effective)) / (1 + z * z / effective)
        spread = math.sqrt(share * (1 - share) / effective + (z / (2 * effective)) ** 2)
        spread *= z / (1 + z * z / effective)
        return cls(share, max(0.0, middle - spread), min(1.0, middle + spread))

    def is_above(self, chance: float) -> bool:
        """Whether the whole interval is."""
        return self.low > chance

    def percent(self) -> str:
        """Return it as text, in percent."""
        text = f"{100 * self.value:.1f}% [{100 * self.low:.1f}, {100 * self.high:.1f}]"
        return f"{text}, {self.counts}" if self.counts else text

    def plain(self) -> str:
        """Return it as text."""
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a table: what was measured, with its interval, and what chance gives."""

    name: str
    measured: str
    by_chance: str = ""
    worse: Literal["", "above", "below"] = ""  # which side of chance would be a leak

    def line(self) -> str:
        """Return it as text."""
        chance = f"; by chance {self.by_chance}, worse {self.worse}" if self.by_chance else ""
        return f"{self.name}: {self.measured}{chance}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """What the attack achieved.

    Attributes:
        num_synthetic: Images that were looked at.
        num_members: Likewise, equally many members and held-out ones.
        num_copies: Synthetic images that are a member, byte for byte; of all members.
        distance_ratio: Of a synthetic image to its nearest member, over that to its nearest
            held-out image; the median. About 1 by chance, 0 for copies.
        nearer: Share of synthetic images whose nearest image of both kinds is a member; 1/2.
        named: Share of pairs, one member and one held-out image, in which the one that is nearer to
            a synthetic image is the member; 1/2. This is the area under the attack's curve.
        named_beside_others: The same by that distance over the one to other held-out images, which
            tells a copied image from one that is like many; 1/2.
        caught: Share of members that are nearer to a synthetic image than about one percent of
            held-out ones.
        false_alarms: Share of other held-out images that are; what `caught` is by chance.
    """

    num_synthetic: int
    num_members: int
    num_copies: int
    distance_ratio: Interval
    nearer: Interval
    named: Interval
    named_beside_others: Interval
    caught: Interval
    false_alarms: Interval

    @property
    def alarms(self) -> tuple[str, ...]:
        """What is above chance by more than its interval, in words; the names of no image."""
        found = {
            f"{self.num_copies:,} synthetic images equal an image that was used": self.num_copies
            > 0,
            "synthetic images lie nearer to images that were used": self.nearer.is_above(0.5),
            "images that were used are told from others by nearness": self.named.is_above(0.5),
            "images that were used are told from others by relative nearness": (
                self.named_beside_others.is_above(0.5)
            ),
            "more images that were used than others are very near": (
                self.caught.low > self.false_alarms.high
            ),
        }
        return tuple(words for words, is_found in found.items() if is_found)

    def figures(self) -> list[Figure]:
        """Return what was measured, for people."""
        half, used = "50%", "used for training"
        ratio = f"distance to the nearest real image {used} / to the nearest never used; median"
        pairs = f"pairs, a real image {used} and one never used, told apart by nearness"
        nearer = f"synthetic images nearer to one {used} than to one never used"
        near = f"real images {used} that are nearer to a synthetic one than most never used are"
        return [
            Figure("synthetic images looked at", f"{self.num_synthetic:,}"),
            Figure(f"real images {used} that were drawn, and never used ones", self._drawn),
            Figure(
                f"synthetic images equal to a real one {used}", f"{self.num_copies:,}", "0", "above"
            ),
            Figure(ratio, self.distance_ratio.plain(), "1", "below"),
            Figure(nearer, self.nearer.percent(), half, "above"),
            Figure(pairs, self.named.percent(), half, "above"),
            Figure(
                f"{pairs} relative to others", self.named_beside_others.percent(), half, "above"
            ),
            Figure(near, self.caught.percent(), self.false_alarms.percent(), "above"),
        ]

    @property
    def _drawn(self) -> str:
        return f"{self.num_members:,} of each"


def num_copies(synthetic_SD: Rows, members: Iterable[Rows]) -> int:
    """Return how many synthetic images are a member, byte for byte.

    Args:
        synthetic_SD: Bytes, a row an image.
        members: Of the same width, some at a time.
    """
    made = Counter(row.tobytes() for row in np.ascontiguousarray(synthetic_SD))
    found = {
        content
        for rows in members
        for row in np.ascontiguousarray(rows)
        if (content := row.tobytes()) in made
    }
    return sum(made[content] for content in found)


def infer_membership(
    synthetic_SD: Rows, members_MD: Rows, held_out_HD: Rows, *, copies: int, seed: int = 0
) -> Membership:
    """Attack.

    Args:
        synthetic_SD: Bytes; the first 10,000 are looked at.
        members_MD: Bytes, at least 40, of which at most 5,000 are drawn. No two of one person, or
            the intervals are too narrow.
        held_out_HD: Bytes, at least 40, likewise; none of them a member.
        copies: As `num_copies` counts them.
        seed: Of what is drawn and how images are paired.

    Raises:
        ValueError: If there are too few images of a kind.
    """
    least = min(len(members_MD), len(held_out_HD))
    if least < LEAST_RECORDS or not len(synthetic_SD):
        msg = f"membership inference needs at least {LEAST_RECORDS} members and held-out images"
        raise ValueError(msg)
    rng = np.random.default_rng(seed)
    count = min(least, MOST_RECORDS)
    members, held_out = (
        _unit(rows[rng.permutation(len(rows))[:count]]) for rows in (members_MD, held_out_HD)
    )
    synthetic = _unit(synthetic_SD[:MOST_SYNTHETIC])
    to_members, members_to = _nearest(synthetic, members)
    to_held_out, held_out_to = _nearest(synthetic, held_out)
    half = count // 2
    reference, others = held_out[:half], slice(half, 2 * half)
    index = NearestNeighbors(algorithm="brute").fit(reference)
    beside = [
        nearness / _positive(index.kneighbors(rows, n_neighbors=1)[0][:, 0])
        for nearness, rows in (
            (members_to.distance[:half], members[:half]),
            (held_out_to.distance[others], held_out[others]),
        )
    ]
    is_member, effective = _nearest_of_both(to_members, to_held_out)
    closest = np.sort(held_out_to.distance[:half])
    threshold = closest[max(0, math.ceil(FALSE_ALARMS * half) - 1)]
    caught, alarms = members_to.distance < threshold, held_out_to.distance[half:] < threshold
    ratio = to_members.distance / _positive(to_held_out.distance)
    return Membership(
        num_synthetic=len(synthetic),
        num_members=count,
        num_copies=copies,
        distance_ratio=_median(ratio, effective),
        nearer=Interval.of_share(float(is_member.mean()), effective),
        named=_named(members_to.distance, held_out_to.distance, rng),
        named_beside_others=_named(beside[0], beside[1], rng),
        caught=Interval.of_count(int(caught.sum()), len(caught)),
        false_alarms=Interval.of_count(int(alarms.sum()), len(alarms)),
    )


def repeated(synthetic_SD: Rows, real_HD: Rows) -> Interval:
    """Return the share of synthetic images with another one closer than real ones are.

    Closer than one percent of real images are to their nearest other: about .01 if both are alike,
    near 1 for a generator that makes the same few images again and again.

    Args:
        synthetic_SD: Bytes, at least 2; the first 10,000 are looked at.
        real_HD: Bytes of public images, at least 40; the first 5,000 are.
    """
    real, made = real_HD[:MOST_RECORDS], synthetic_SD[:MOST_SYNTHETIC]
    among_real, among_made = (_among(_unit(rows)) for rows in (real, made[: len(real)]))
    close = float(np.quantile(among_real, FALSE_ALARMS))
    return Interval.of_count(int((among_made < close).sum()), len(among_made))


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicCheck:
    """What an analyst can look at without a private image.

    Attributes:
        repeated: As `repeated` returns it.
        membership: Of public images that were learned from, or of halves of the test images.
        members: Which of the two; of halves every figure is by chance, and shows how wide intervals
            are.
    """

    repeated: Interval
    membership: Membership
    members: Literal["the public images", "half of the test images"]

    def figures(self) -> list[Figure]:
        """Return what was measured, for people."""
        same = "synthetic images that another one nearly repeats"
        return [
            Figure(same, self.repeated.percent(), f"{FALSE_ALARMS:.0%}", "above"),
            Figure("in the place of images used for training", self.members),
            *self.membership.figures(),
        ]


def check_publicly(synthetic_SD: Rows, test_HD: Rows, public_MD: Rows | None) -> PublicCheck:
    """Look for repetitions, and attack with public images only.

    Args:
        synthetic_SD: Bytes, at least 2.
        test_HD: Of real public images, at least 80; none of them was learned from.
        public_MD: Of real public images that the generator, or a network that it uses, learned
            from, as in a rehearsal; None if there are none.

    Raises:
        ValueError: If there are too few images.
    """
    mixed = test_HD[np.random.default_rng(0).permutation(len(test_HD))]
    members, held_out = mixed[::2], mixed[1::2]
    if public_MD is not None:
        members, held_out = public_MD, test_HD
    if len(test_HD) < 2 * LEAST_RECORDS or len(synthetic_SD) < 2:
        msg = f"it needs 2 synthetic and {2 * LEAST_RECORDS} test images"
        raise ValueError(msg)
    copies = num_copies(synthetic_SD, [members])
    return PublicCheck(
        repeated=repeated(synthetic_SD, test_HD),
        membership=infer_membership(synthetic_SD, members, held_out, copies=copies),
        members="half of the test images" if public_MD is None else "the public images",
    )


@dataclass(frozen=True, slots=True)
class _Nearest:
    distance: npt.NDArray[np.float64]
    place: npt.NDArray[np.int64]


def _nearest(synthetic_SD: Rows, records_RD: Rows) -> tuple[_Nearest, _Nearest]:
    """Return the nearest record of each synthetic image, and the other way round."""
    best = np.full(len(synthetic_SD), np.inf)
    where = np.zeros(len(synthetic_SD), np.int64)
    mine, places, start = [], [], 0
    for distances in pairwise_distances_chunked(records_RD, synthetic_SD):
        nearest = distances.argmin(axis=0)
        here = distances[nearest, np.arange(len(synthetic_SD))]
        is_better = here < best
        best = np.where(is_better, here, best)
        where = np.where(is_better, nearest + start, where)
        mine.append(distances.min(axis=1))
        places.append(distances.argmin(axis=1))
        start += len(distances)
    return _Nearest(best, where), _Nearest(np.concatenate(mine), np.concatenate(places))


def _nearest_of_both(
    to_members: _Nearest, to_held_out: _Nearest
) -> tuple[npt.NDArray[np.float64], float]:
    """Return whose nearest image is a member, 1/2 where both are as near, and the effective number.

    Images with the same nearest record say the same thing of it: the number is that of records, by
    the weights that they have.
    """
    is_member = np.where(to_members.distance < to_held_out.distance, 1.0, 0.0)
    is_member[to_members.distance == to_held_out.distance] = 0.5
    of_member = np.bincount(to_members.place, weights=is_member)
    of_held_out = np.bincount(to_held_out.place, weights=1 - is_member)
    squares = float((of_member**2).sum() + (of_held_out**2).sum())
    return is_member, len(is_member) ** 2 / squares


def _named(
    members: npt.NDArray[np.float64], held_out: npt.NDArray[np.float64], rng: np.random.Generator
) -> Interval:
    """Return how often the nearer one of a pair is the member; a coin decides if both are alike."""
    coin = rng.random(len(members)) < 0.5
    right = (members < held_out) | ((members == held_out) & coin)
    return Interval.of_count(int(right.sum()), len(right))


def _median(values: npt.NDArray[np.float64], effective: float) -> Interval:
    """Return a median with the interval of the sign test."""
    side = float(ndtri((1 + CONFIDENCE) / 2)) / (2 * math.sqrt(effective))
    low, middle, high = np.quantile(values, [max(0.0, 0.5 - side), 0.5, min(1.0, 0.5 + side)])
    return Interval(float(middle), float(low), float(high))


def _among(rows: Rows) -> npt.NDArray[np.float64]:
    """Return the distance of each row to the nearest other one."""
    distances, _ = NearestNeighbors(algorithm="brute").fit(rows).kneighbors(rows, n_neighbors=2)
    nearest: npt.NDArray[np.float64] = distances[:, 1]
    return nearest


def _positive(distances: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return distances to divide by."""
    return np.maximum(distances, np.finfo(np.float64).tiny)


def _unit(rows: Rows) -> npt.NDArray[np.float64]:
    scaled: npt.NDArray[np.float64] = np.asarray(rows, np.float64) / 255
    return scaled
