"""Documents that people hand over: read up to a size, and checked field by field.

Whatever is in the file, what comes out is of the types that were asked for, or a `DocumentProblem`
that names the field and never repeats a value: it may be a secret.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from analyst.os_errors import explain_os_error

STRICT: Final = ConfigDict(strict=True, allow_inf_nan=False, extra="ignore")
"""How a document's model is to be configured."""

MOST_BYTES: Final = 1 << 20
_T = TypeVar("_T")
_WORDS: Final = {
    "missing": "is missing",
    "json_invalid": "is cut or damaged: it is not JSON",
    "extra_forbidden": "is not known",
    "unexpected_keyword_argument": "is not known",
}


class DocumentProblem(ValueError):
    """What is wrong with a document, beginning with the field if it is one field."""


def read_bounded(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read a whole file.

    Args:
        path: The file, of any kind; one that is not there is an error of the system.
        most: Bytes that it may have.

    Raises:
        DocumentProblem: If it has more, or cannot be read.
        FileNotFoundError: If there is none.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(most + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        error.filename = None  # the caller names it
        raise DocumentProblem(explain_os_error(error)[0]) from None
    if len(content) > most:
        msg = f"it has more than {most >> 10:,} KiB, so it is another file"
        raise DocumentProblem(msg)
    return content


def read_lines(path: Path, longest: int = MOST_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file that are whole, without their ends.

    Args:
        path: The file.
        longest: Bytes that one may have.

    Raises:
        DocumentProblem: If one has more.
    """
    with path.open("rb") as stream:
        while line := stream.readline(longest + 1):
            if len(line) > longest:
                msg = f"a line has more than {longest >> 10:,} KiB, so it is another file"
                raise DocumentProblem(msg)
            if line.endswith(b"\n"):
                yield line[:-1]


def parsed(adapter: TypeAdapter[_T], content: bytes | str) -> _T:
    """Return what a JSON document says.

    Raises:
        DocumentProblem: If it is not such a document.
    """
    try:
        return adapter.validate_json(content)
    except ValidationError as error:
        raise DocumentProblem(_first(error)) from None


def checked(adapter: TypeAdapter[_T], value: Any) -> _T:
    """Return a value that was parsed before as what it should be.

    Raises:
        DocumentProblem: If it is not that.
    """
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise DocumentProblem(_first(error)) from None


def toml_table(content: bytes) -> dict[str, Any]:
    """Return a TOML document as a table.

    Raises:
        DocumentProblem: If it is none.
    """
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        msg = "not UTF-8 text"
        raise DocumentProblem(msg) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        msg = f"not valid TOML: {error}"
        raise DocumentProblem(msg) from None


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    words = _WORDS.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    where = ".".join(str(part) for part in first["loc"]) or "the file"
    return f"{where}: {words.replace('Input should', 'should')}"
