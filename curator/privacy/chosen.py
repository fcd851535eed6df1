"""One of two integers by a private condition, in a time that does not depend on it.

torch.where and masked_fill branch on each entry where there are no vector instructions for it, and
a processor foresees the branches of rows that are alike better than those of rows that are not.
"""

from __future__ import annotations

import torch
from torch import Tensor


def chosen(condition: Tensor, values: Tensor, other: int) -> Tensor:
    """Return `values` where a condition holds, and another number elsewhere.

    Args:
        condition: bool, any shape.
        values: int64 of that shape; differences from `other` must fit int64.
        other: Public.

    Privacy:
        Arithmetic alone: no branch depends on an entry.
    """
    return other + condition.to(torch.int64) * (values - other)
