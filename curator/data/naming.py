"""File and class names: their order, how they are shown, and which are hidden."""

from __future__ import annotations

import re
import unicodedata

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
