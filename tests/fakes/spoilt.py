"""A good document, spoilt in every small way: cut, a field gone, or of another kind or size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

OTHERS: tuple[Any, ...] = (
    None,
    -5,
    2.5,
    "text",
    [],
    {},
    True,
    10**30,
    float("nan"),
    ["x"],
    "\ud800",
)
GARBAGE = (b"", b"null", b"[]", b"7", b'"x"', b"{", b"\xff\xfe", b"[" * 100_000, b"\0" * 64)
_Problem = TypeVar("_Problem", bound=Exception)


def problem(kind: type[_Problem], read: Callable[[], object]) -> _Problem | None:
    """Return what reading raises, None if it raises nothing; any other error is the test's."""
    try:
        read()
    except kind as error:
        return error
    return None


def spoilt(document: Any) -> Iterator[bytes]:
    """Yield documents that are not the one that was given.

    Args:
        document: Of plain types.
    """
    whole = json.dumps(document).encode()
    for cut in range(0, len(whole), max(1, len(whole) // 25)):
        yield whole[:cut]
    yield from GARBAGE
    for changed in _changed(document):
        yield json.dumps(changed).encode()


def _changed(value: Any) -> Iterator[Any]:
    """Yield a value with one part of it gone, or replaced."""
    yield from (one for one in OTHERS if type(one) is not type(value) or one != value)
    if isinstance(value, list):
        for place, part in enumerate(value[:2]):
            yield from ([*value[:place], one, *value[place + 1 :]] for one in _changed(part))
    for key, part in value.items() if isinstance(value, dict) else ():
        yield {name: one for name, one in value.items() if name != key}
        yield from ({**value, key: changed} for changed in _changed(part))
