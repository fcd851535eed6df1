"""Reading the grids of orders that golden rows name: '2..64', '1.1(0.1)10.9, 11(1)64'."""

from __future__ import annotations

import re


def parse_orders(text: str) -> list[float]:
    """Return every order that a row's text names."""
    orders: list[float] = []
    for part in text.split(","):
        whole = re.fullmatch(r"\s*(\d+)\.\.(\d+)\s*", part)
        if whole:
            orders += [float(a) for a in range(int(whole[1]), int(whole[2]) + 1)]
            continue
        steps = re.fullmatch(r"\s*([\d.]+)\(([\d.]+)\)([\d.]+)\s*", part)
        if steps is None:
            orders.append(float(part))
            continue
        first, step, last = (float(steps[i]) for i in (1, 2, 3))
        orders += [first + i * step for i in range(round((last - first) / step) + 1)]
    return orders
