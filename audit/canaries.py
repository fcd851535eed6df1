"""Neighbouring data sets made to be told apart: each pair is one canary, public and thrown away.

Every image is 1x4x4, labels are all 0. D has the base records, D' one record more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from audit import CANARIES
from curator.data.images import LabelledImages
from curator.privacy.batches import Samples
from curator.privacy.facts import DatasetFacts

SIDE = 4
NUM_SAMPLES = 4
NUM_DEBIAS = 2
CAPACITY = 8
MAX_RECORDS = CAPACITY - 1  # so that a batch never overflows

_PIXELS = SIDE * SIDE
_MAX_LEVEL = 255
_ROWS = NUM_SAMPLES + NUM_DEBIAS
_GREY = -0.1
_GOLDEN, _SILVER = 0.6180339887498949, 0.41421356237309503
_NUM_ORDINARY = 3
_NEARLY_WHITE = (254, 254)  # of its first pixels; so its shard is that of black
_DARK_LEVELS = (0, 1, 14, 18, 19, 21)  # even images; of two shards the first has black alone


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pair:
    """Two neighbouring data sets and the images that the attacker sends.

    `fails` says that the extra record cannot be computed with: see `canary_records.py`.
    """

    canary: str
    base: LabelledImages
    extra: LabelledImages
    samples: Samples
    fails: bool = False

    @property
    def both(self) -> LabelledImages:
        """D': the base and the extra record."""
        return LabelledImages(
            levels=np.concatenate((self.base.levels, self.extra.levels)),
            labels=np.concatenate((self.base.labels, self.extra.labels)),
        )


def make_pair(canary: str) -> Pair:
    """Return one pair.

    Args:
        canary: One of `CANARIES`.

    Raises:
        ValueError: If there is no such canary.
    """
    black, white = np.zeros(_PIXELS), np.full(_PIXELS, _MAX_LEVEL)
    ordinary = np.floor(_scattered(_NUM_ORDINARY + 1, _GOLDEN) * _MAX_LEVEL)
    spread = torch.from_numpy((2 * _scattered(_ROWS, _SILVER) - 1).astype(np.float32))
    grey = torch.full((_ROWS, _PIXELS), _GREY)
    base, one, none = ordinary[:-1], ordinary[-1], ordinary[:0]
    light = white.copy()
    light[: len(_NEARLY_WHITE)] = _NEARLY_WHITE
    crowd = np.repeat(np.array(_DARK_LEVELS)[:, np.newaxis], _PIXELS, axis=1)
    against = np.where(spread.mean(0).numpy() > 0, 0, _MAX_LEVEL)  # the corner far from the samples
    pairs: dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], torch.Tensor]] = {
        "flip": (black[np.newaxis], light, grey),
        "crowd": (crowd, light, grey),
        "black": (base, black, spread),
        "white": (base, white, spread),
        "adversarial": (base, against, spread),
        "one-more": (base, one, spread),
        "empty": (none, one, spread),
        "failing": (none, one, grey),
    }
    if canary not in pairs:
        msg = f"canary: expected one of {', '.join(CANARIES)}"
        raise ValueError(msg)
    return _pair(canary, *pairs[canary], fails=canary == "failing")


def audit_facts(name: str) -> DatasetFacts:
    """Return the public facts under which each throw-away data set is registered."""
    return DatasetFacts.model_validate(
        {
            "name": name,
            "channels": 1,
            "height": SIDE,
            "width": SIDE,
            "max_level": _MAX_LEVEL,
            "classes": ("0", "1"),
            "nominal_size": _NUM_ORDINARY,
            "max_size": MAX_RECORDS,
            "sampling_rate": 1.0,
            "capacity": CAPACITY,
            "relation": "add-or-remove",
            "unit": "record",
            "epsilon": 20.0,
            "delta": 1e-2,
        }
    )


def _scattered(rows: int, ratio: float) -> npt.NDArray[np.float64]:
    """Return images whose pixels are spread evenly over [0, 1) and look like nothing."""
    places = np.arange(1, rows * _PIXELS + 1, dtype=np.float64)
    return np.asarray((places * ratio) % 1).reshape(rows, _PIXELS)


def _pair(
    canary: str, base: np.ndarray, extra: np.ndarray, samples: torch.Tensor, *, fails: bool = False
) -> Pair:
    return Pair(
        canary=canary,
        base=_images(base),
        extra=_images(extra[np.newaxis]),
        samples=Samples(images_ND=samples, labels_N=torch.zeros(len(samples), dtype=torch.int64)),
        fails=fails,
    )


def _images(levels: np.ndarray) -> LabelledImages:
    return LabelledImages(
        levels=np.ascontiguousarray(levels, dtype=np.uint8).reshape(-1, 1, SIDE, SIDE),
        labels=np.zeros(len(levels), dtype=np.int64),
    )
