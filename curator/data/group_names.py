"""What names one person or patient: values that only look different are refused, never told apart.

Two spellings of one person would be two units, and that person would be protected half as much.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, final

_DIGITS = re.compile(r"([0-9]+)")
_SYSTEM = frozenset({"__macosx", "thumbs.db", "desktop.ini", "$recycle.bin"})


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sorting key that puts 2 before 10.

    Returns:
        Numbers compare as numbers and come before letters; the rest compares as text.
    """
    parts = (part for part in _DIGITS.split(name) if part)
    return tuple(
        (0, int(part), part) if _DIGITS.fullmatch(part) else (1, 0, part) for part in parts
    )


def same_name(name: str) -> str:
    """Return one spelling of a name that systems compose differently.

    Returns:
        Its composed form (NFC), so that an accented letter is equal to letter and accent.
    """
    return unicodedata.normalize("NFC", name)


def is_text(name: str) -> bool:
    """Return whether a name is text, and not bytes that the system's encoding cannot read."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(name: str) -> str:
    """Return a name that is safe to print on one line.

    Args:
        name: May hold line ends, control characters or bytes that are no text.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in name
    )


def is_hidden(name: str) -> bool:
    """Return whether an operating system put a file or folder there and hides it."""
    return name.startswith(".") or name.lower() in _SYSTEM


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

    def __init__(self, *, shows: bool = True) -> None:
        """Begin with none.

        Args:
            shows: Whether values may be repeated in what is said of them.
        """
        self._shows = shows
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
        mine, other = "its group", f"that of {where}"
        if self._shows:
            names = _told_apart(value, first)
            mine, other = f"the group '{names[0]}'", f"'{names[1]}' of {where}"
        return (
            f"{mine} differs from {other} in blanks or Unicode form only: make both alike, or let "
            "them differ in more"
        )

    def alike(self) -> Iterator[tuple[str, str]]:
        """Yield the values that differ from an earlier one in case only, with their rows."""
        folded: dict[str, tuple[str, str]] = {}
        for key, (value, row) in self._first.items():
            first, where = folded.setdefault(bare(key.casefold()), (value, row))
            if first != value and not self._shows:
                yield f"that of {row}", f"that of {where}, but for case"
            elif first != value:
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
