"""Labels from a table of yes-or-no attributes, as CelebA's list_attr_celeba.txt is.

The first line says how many images there are, the second names the attributes, and each of the
others has a file's name and 1 or -1 for each attribute. One attribute is the label: 'yes' or 'no'.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from curator.data.errors import SourceError
from curator.data.group_names import shown
from curator.system.os_errors import in_words

ENDING: Final = ".txt"
YES, NO = "yes", "no"
_LABELS: Final = {"1": YES, "-1": NO}
_LONGEST_LINE: Final = 1 << 12


def attribute_rows(table: Path, attribute: str | None) -> Iterator[dict[str, str | None]]:
    """Yield path and label of each line.

    Args:
        table: The file.
        attribute: Which one is the label.

    Raises:
        SourceError: If it is no such table, or has no such attribute.
    """
    try:
        with table.open(encoding="utf-8") as stream:
            lines = iter(lambda: stream.readline(_LONGEST_LINE), "")
            count, names = next(lines, "").strip(), next(lines, "").split()
            if not count.isdecimal() or not names:
                msg = (
                    f"{table}: not a table of attributes: its first line must be a number, its "
                    "second the attributes' names"
                )
                raise SourceError(msg)
            place, number = _place(table, names, attribute), 0
            for number, line in enumerate(lines, 1):
                cells = line.split()
                if len(cells) != len(names) + 1 or cells[1 + place] not in _LABELS:
                    msg = (
                        f"{table}: row {number} must have a file's name and then 1 or -1 for each "
                        f"of {len(names)} attributes"
                    )
                    raise SourceError(msg)
                yield {"path": cells[0], "label": _LABELS[cells[1 + place]]}
            if number != int(count):  # a table that was cut would be a smaller set without a word
                msg = f"{table}: its first line says {count} rows, and it has {number}"
                raise SourceError(msg)
    except UnicodeDecodeError:
        msg = f"{table}: not text in UTF-8"
        raise SourceError(msg) from None
    except OSError as problem:
        raise SourceError(in_words(problem, str(table))) from None


def _place(table: Path, names: list[str], attribute: str | None) -> int:
    """Return which of the attributes is the label.

    Raises:
        SourceError: If it is not one of them.
    """
    known = shown(", ".join(names))
    if attribute is None:
        msg = f"{table}: say which attribute is the label with --attribute NAME, one of {known}"
        raise SourceError(msg)
    if attribute not in names:
        msg = f"{table}: has no attribute '{shown(attribute)}'; it has {known}"
        raise SourceError(msg)
    return names.index(attribute)
