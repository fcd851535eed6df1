"""How many numbers of a long tensor are worked on at once, which no result depends on."""

from __future__ import annotations

from typing import Final

import torch

_IN_CACHE: Final = 1 << 16  # 512 KiB in float64: a processor's near cache
_ON_CARD: Final = 1 << 24  # 128 MiB: a card has to be given much, or starting its work takes longer


def values_at_once(device: torch.device) -> int:
    """Return how many values of rows are looked at at once on a device.

    Privacy:
        A function of the device; for work that treats each row alone.
    """
    return _IN_CACHE if device.type == "cpu" else _ON_CARD
