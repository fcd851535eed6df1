"""Rounding towards zero in the same time for any values.

torch.trunc calls a function of the C library for each number, which branches on its exponent: of
numbers of mixed sizes it takes four times as long as of equal ones, and private values would tell
by the time of an answer what they are. Its floor is one instruction for several numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def toward_zero(values: Tensor) -> Tensor:
    """Return the values without their fractions, bit for bit as `torch.trunc`.

    Args:
        values: float32 or float64, of any shape.

    Privacy:
        No branch, table or loop depends on a value.
    """
    return values.abs().floor_().copysign_(values)
