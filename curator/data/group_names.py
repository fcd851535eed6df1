"""What names one person or patient: values that only look different are refused, never told apart.

Two spellings of one person would be two units, and that person would be protected half as much.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Final, final

from curator.data.naming import shown

EMPTY: Final = "the group is empty: fill it in, or remove the row"
_UNSEEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})  # controls, zero-width, blanks
_FILLERS: Final = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # seen by nobody either
_SELECTORS: Final = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))


def bare(value: str) -> str:
    """Return what is left of a name without blanks, unseen characters and Unicode forms."""
    forms = unicodedata.normalize("NFKD", value)
    return unicodedata.normalize("NFKC", "".join(one for one in forms if not _is_unseen(one)))


@final
class GroupNames:
    """The values that were met so far, in the order of their rows."""

    def __init__(self) -> None:
        """Begin with none."""
        self._first: dict[str, tuple[str, str]] = {}

    def problem(self, value: str, row: str) -> str | None:
        """Take one value.

        Args:
            value: As written.
            row: Where, such as "row 2".

        Returns:
            Why it is refused, None if it is not.
        """
        key = bare(value)
        if not key:
            return EMPTY
        first, where = self._first.setdefault(key, (value, row))
        if first == value:
            return None
        mine, other = _told_apart(value, first)
        return (
            f"the group '{mine}' differs from '{other}' of {where} in blanks or Unicode form only: "
            "make both alike, or let them differ in more"
        )

    def alike(self) -> Iterator[tuple[str, str]]:
        """Yield the values that differ from an earlier one in case only, with their rows."""
        folded: dict[str, tuple[str, str]] = {}
        for key, (value, row) in self._first.items():
            first, where = folded.setdefault(bare(key.casefold()), (value, row))
            if first != value:
                yield f"'{shown(value)}' of {row}", f"'{shown(first)}' of {where}, but for case"


def _is_unseen(character: str) -> bool:
    return (
        unicodedata.category(character) in _UNSEEN
        or character in _FILLERS
        or any(low <= ord(character) <= high for low, high in _SELECTORS)
    )


def _told_apart(value: str, first: str) -> tuple[str, str]:
    """Return both values so that the difference is seen."""
    both = value + first
    is_plain = all(one == " " or not _is_unseen(one) for one in both)
    if is_plain and unicodedata.is_normalized("NFKC", both):
        return shown(value), shown(first)
    return ascii(value)[1:-1], ascii(first)[1:-1]
