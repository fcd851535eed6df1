"""Which checks notice a mutant."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def caught_by(detectors: Iterable[Callable[[], None]]) -> list[str]:
    """Return the names of the detectors that fail.

    Args:
        detectors: Checks that pass for the real code.
    """
    caught = []
    for detector in detectors:
        try:
            detector()
        except AssertionError:
            caught.append(detector.__name__)
    return caught
