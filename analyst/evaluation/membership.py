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
from sklearn.neighbors import NearestNeighbors

from analyst.evaluation.attack_figures import Figure, Interval, Shuffled, half

Rows = npt.NDArray[Any]

MOST_SYNTHETIC: Final = 10_000
MOST_RECORDS: Final = 5_000
LEAST_RECORDS: Final = 40  # members, and held-out ones
FALSE_ALARMS: Final = 0.01
SHUFFLES: Final = 400
_NUM_NEAREST: Final = 24
_NOTHING: Final = 1e-9  # of a distance, so that two copies are as near as each other


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
    distance_ratio: Shuffled
    nearer: Shuffled
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
            "synthetic images are nearer to images that were used": (
                self.nearer.value > self.nearer.chance.high
            ),
            "distances to images that were used are shorter": (
                self.distance_ratio.value < self.distance_ratio.chance.low
            ),
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
        used, shuffled = "used for training", self.distance_ratio.chance
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
            Figure(ratio, f"{self.distance_ratio.value:.3f}", shuffled.plain(), "below"),
            Figure(nearer, f"{self.nearer.value:.1%}", self.nearer.chance.percent(), "above"),
            Figure(pairs, self.named.percent(), half(self.num_members), "above"),
            Figure(
                f"{pairs} relative to others",
                self.named_beside_others.percent(),
                half(self.num_members // 2),
                "above",
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
    members_to, held_out_to = _to(synthetic, members), _to(synthetic, held_out)
    half = count // 2
    reference, others = held_out[:half], slice(half, 2 * half)
    beside = [
        nearness / _positive(_to(reference, rows))
        for nearness, rows in (
            (members_to[:half], members[:half]),
            (held_out_to[others], held_out[others]),
        )
    ]
    closest = np.sort(held_out_to[:half])
    threshold = closest[max(0, math.ceil(FALSE_ALARMS * half) - 1)]
    caught, alarms = members_to < threshold, held_out_to[half:] < threshold
    nearer, ratio = _both_sides(synthetic, members, held_out, rng)
    return Membership(
        num_synthetic=len(synthetic),
        num_members=count,
        num_copies=copies,
        distance_ratio=ratio,
        nearer=nearer,
        named=_named(members_to, held_out_to, rng),
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


def _to(others_RD: Rows, rows_ND: Rows) -> npt.NDArray[np.float64]:
    """Return the distance of each row to the nearest of others."""
    index = NearestNeighbors(algorithm="brute").fit(others_RD)
    nearest: npt.NDArray[np.float64] = index.kneighbors(rows_ND, n_neighbors=1)[0][:, 0]
    return nearest


def _both_sides(
    synthetic_SD: Rows, members_MD: Rows, held_out_MD: Rows, rng: np.random.Generator
) -> tuple[Shuffled, Shuffled]:
    """Return how many synthetic images are nearer to members, and the median ratio of distances.

    Each synthetic image's 24 nearest real ones are found once; sides are then dealt out anew. That
    all 24 fall on one side has a chance of 1 in 8 million: the farthest then stands for the other.
    """
    count = len(members_MD)
    index = NearestNeighbors(algorithm="brute").fit(np.concatenate([members_MD, held_out_MD]))
    distance_SK, place_SK = index.kneighbors(synthetic_SD, n_neighbors=min(_NUM_NEAREST, 2 * count))
    is_member = np.arange(2 * count) < count
    found = [_of_sides(distance_SK, place_SK, is_member)]
    found += [_of_sides(distance_SK, place_SK, rng.permutation(is_member)) for _ in range(SHUFFLES)]
    nearer, ratios = np.array(found).T
    return Shuffled.among(nearer[0], nearer[1:]), Shuffled.among(ratios[0], ratios[1:])


def _of_sides(
    distance_SK: Rows, place_SK: Rows, is_member: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    """Return both figures where these real images are the members."""
    side_SK, rows = is_member[place_SK], np.arange(len(place_SK))
    member, other = (
        np.where(side.any(axis=1), distance_SK[rows, side.argmax(axis=1)], distance_SK[:, -1])
        for side in (side_SK, ~side_SK)
    )
    nearer = np.where(member == other, 0.5, member < other)
    ratio = (member + _NOTHING) / (other + _NOTHING)
    return float(nearer.mean()), float(np.median(ratio))


def _named(
    members: npt.NDArray[np.float64], held_out: npt.NDArray[np.float64], rng: np.random.Generator
) -> Interval:
    """Return how often the nearer one of a pair is the member; a coin decides if both are alike."""
    coin = rng.random(len(members)) < 0.5
    right = (members < held_out) | ((members == held_out) & coin)
    return Interval.of_count(int(right.sum()), len(right))


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
