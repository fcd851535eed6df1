"""Numbers and times as the pages print them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

NEARLY: Final = 0.9  # as the alert rule
ALL: Final = 0.995
"""The part of a cap from which on it counts as used up: what is left buys next to nothing."""


def epsilon(value: float) -> str:
    """Return an epsilon with four digits after the point, as the refusals print it."""
    return f"{value:.4f}" if math.isfinite(value) else "infinite"


def moment(value: datetime | str) -> str:
    """Return a time in UTC to the second."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def count(value: int) -> str:
    """Return a whole number with its thousands apart."""
    return f"{value:,}".replace(",", "\N{NO-BREAK SPACE}")


def rate(steps_per_second: float | None) -> str:
    """Return how fast a run goes.

    Args:
        steps_per_second: None where that cannot be said.
    """
    if steps_per_second is None:
        return "no steps lately"
    return f"{steps_per_second:.3g} steps/s"


def remaining(num_steps: int, steps_per_second: float | None) -> str:
    """Return how long a run still takes at its rate.

    Args:
        num_steps: Still to do.
        steps_per_second: None where that cannot be said.
    """
    if not steps_per_second or num_steps <= 0:
        return "\N{EM DASH}"
    minutes = num_steps / steps_per_second / 60
    if minutes < 1:
        return "under a minute"
    hours, days = minutes / 60, minutes / 60 / 24
    if hours < 1:
        return f"{minutes:.0f} min"
    return f"{hours:.1f} h" if days < 2 else f"{days:.1f} days"


def budget_state(spent: float, reserved: float, cap: float) -> tuple[str, str] | None:
    """Return what a budget needs said about it with its colour's name, None for nothing.

    Args:
        spent: Epsilon.
        reserved: Epsilon, with what is spent.
        cap: Epsilon that is allowed now.
    """
    if spent >= ALL * cap:
        return "used up", "bad"
    if reserved >= ALL * cap:
        return "all reserved", "warn"
    return ("nearly spent", "warn") if reserved >= NEARLY * cap else None
