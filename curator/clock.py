"""The wall clock, given to whoever writes a time; tests give another."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the present in UTC."""
    return datetime.now(UTC)
