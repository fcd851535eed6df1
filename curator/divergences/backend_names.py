"""What the steward may ask to run the dense Sinkhorn updates; apart from torch."""

from __future__ import annotations

from enum import StrEnum


class Backend(StrEnum):
    """What the steward may ask for."""

    AUTO = "auto"
    TORCH = "torch"
    NUMBA = "numba"
    TRITON = "triton"
