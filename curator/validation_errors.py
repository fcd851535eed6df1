"""What pydantic finds wrong with what a steward typed, in words that say what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from curator.privacy.facts import DATASET_NAME

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

UNREAD_LETTERS: Final = (
    "has letters that are no text in this locale: set LC_ALL=C.UTF-8 or PYTHONUTF8=1 and run the "
    "same command again, or choose other letters"
)
_WORDS: Final = {
    "missing": "is missing",
    "extra_forbidden": "is not known",
    "json_invalid": "is not JSON ({error})",
    "dict_type": "must be an object in braces",
    "list_type": "must be a list in brackets",
    "model_type": "must be an object in braces",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text in quotes",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list in brackets",
    "finite_number": "must be a finite number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "string_unicode": UNREAD_LETTERS,
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
}
_LIMITS: Final = {"gt", "ge", "lt", "le", "max_length", "expected", "error"}
_NAME_WORDS: Final = (
    "a name has 1 to 64 lower-case letters, digits, dots, dashes and underscores, and begins with "
    "a letter or a digit"
)


def first_problem(error: ValidationError, whole: str) -> str:
    """Return the first thing that is wrong: where, and what is allowed there.

    Args:
        error: Of any model.
        whole: What to call the model where no single field is wrong.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or whole
    return f"{where}: {in_plain_words(first)}"


def in_plain_words(error: ErrorDetails) -> str:
    """Return what is allowed, without the name of the field."""
    limits = error.get("ctx", {})
    if limits.get("pattern") == f"^{DATASET_NAME.pattern}$":
        return _NAME_WORDS
    words = _WORDS.get(error["type"])
    if words is None:
        return error["msg"].removeprefix("Value error, ")
    return words.format(**{key: _number(limits[key]) for key in _LIMITS & limits.keys()})


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"
