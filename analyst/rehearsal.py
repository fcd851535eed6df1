"""What an analyst is told of a rehearsal: public data without a limit, for debugging.

Every rehearsal's name begins alike, and no other does: the curator sees to that.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "rehearsal-"
BANNER: Final = (
    "*** REHEARSAL *** public data, no limit, no promise: for debugging only *** REHEARSAL ***"
)


NO_LIMIT: Final = 1e6
"""The budget that stands for none at all; every real one is far below."""


def limit_text(epsilon: float) -> str:
    """Return a budget in words."""
    return "no limit" if epsilon >= NO_LIMIT else f"{epsilon:g}"


def is_rehearsal(dataset: str) -> bool:
    """Whether a data set of this name is a rehearsal's.

    Args:
        dataset: Its name; those of several curators are joined by '+', and one is enough.
    """
    return any(name.startswith(PREFIX) for name in dataset.split("+"))
