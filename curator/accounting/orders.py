"""The pinned grid of Renyi orders; a data set keeps the grid that it was registered with."""

from __future__ import annotations

from typing import Final

ORDERS: Final[tuple[float, ...]] = (
    *(1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0),
    *(20.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0),
)
"""Orders above 64 make budgets below one usable; the three fractional ones serve large budgets."""
