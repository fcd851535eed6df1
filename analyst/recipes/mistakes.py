"""What is wrong with a recipe: which key, what it may be, and which key may have been meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Keys = Mapping[str, Iterable[str]]
"""The keys of each section."""

_WORDS: Final = {
    "missing": "is missing",
    "union_tag_not_found": "kind is missing",
    "union_tag_invalid": "kind must be one of {expected_tags}",
    "literal_error": "must be {expected}",
    "int_type": "must be a whole number, such as 12",
    "int_from_float": "must be a whole number, such as 12",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text in quotes",
    "tuple_type": "must be a list in brackets",
    "finite_number": "must be a finite number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
}
_UNKNOWN: Final = frozenset({"unexpected_keyword_argument", "extra_forbidden"})
_STAGES: Final = "stage"
_MOST_NAMED: Final = 3
_NEARLY_ALIKE: Final = 0.8
_LEAST_BEGUN: Final = 3  # letters of a key that name it


def explain(error: ValidationError, table: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return one line for each key; what the branches of a union say is joined by 'or'.

    Args:
        error: Of validating the recipe.
        table: The recipe; the stages of a chain count as sections.
        schema: The JSON schema of such recipes.
    """
    stages = table.get(_STAGES) if _STAGES in schema["properties"] else None
    table = {**table, **stages} if isinstance(stages, Mapping) else table
    kinds = {name: part.get("kind") for name, part in table.items() if isinstance(part, Mapping)}
    known = _keys(schema, kinds, stages if isinstance(stages, Mapping) else ())
    problems: dict[str, list[str]] = {}
    for item in error.errors(include_url=False):
        section, *rest = [str(part) for part in item["loc"]] or [""]
        if section == _STAGES and rest and stages is not None:
            section, *rest = rest
        if rest and rest[0] == kinds.get(section):  # pydantic puts the kind into the path
            del rest[0]
        path = ".".join([section, *rest[:1]])
        is_unknown = item["type"] in _UNKNOWN
        words = _of_unknown(path, table, known) if is_unknown else _in_words(item)
        problems.setdefault(path, []).append(words)
    lines = [f"{path}: {' or '.join(texts)}" for path, texts in problems.items()]
    return "\n  ".join(line.removeprefix(": ") for line in lines)


def did_you_mean(meant: Iterable[str]) -> str:
    """Return what may have been meant as the end of a sentence, empty if nothing is like it."""
    named = list(dict.fromkeys(meant))[:_MOST_NAMED]
    return f"; did you mean {' or '.join(named)}?" if named else ""


def keys_like(path: str, known: Keys) -> Iterator[str]:
    """Yield the keys that a mistyped one may stand for, the likeliest first.

    Args:
        path: SECTION.KEY, or KEY alone.
        known: The keys that there are.
    """
    section, _, key = path.rpartition(".")
    here = known.get(section, ())
    begun = [one for one in here if len(key) >= _LEAST_BEGUN and one.startswith(key)]
    near = get_close_matches(key, list(here), n=2) or begun
    yield from (f"{section}.{one}" for one in near)
    sections = [name for name in known if name != section]
    yield from (f"{name}.{key}" for name in sections if key in known[name])
    if section not in known:
        for name in sections:
            keys = list(known[name])
            longer = [one for one in keys if one.endswith(f"_{key}")]
            near = longer or get_close_matches(key, keys, n=1, cutoff=_NEARLY_ALIKE)
            yield from (f"{name}.{one}" for one in near)


def _of_unknown(path: str, table: Mapping[str, Any], known: Keys) -> str:
    """Return that a section or one of its keys is not known, and which may have been meant."""
    section, dot, _ = path.partition(".")
    if dot:
        kind = table[section].get("kind")
        return f"unknown key{f' of {kind}' if kind else ''}{did_you_mean(keys_like(path, known))}"
    near = get_close_matches(section, list(known), n=1)
    inside = table[section] if isinstance(table[section], Mapping) else {}
    meant = near or [one for key in inside for one in keys_like(f"{section}.{key}", known)]
    return f"unknown section{did_you_mean(meant)}"


def _in_words(item: ErrorDetails) -> str:
    words = _WORDS.get(item["type"])
    if words is None:
        return item["msg"].removeprefix("Value error, ").replace("Input should", "must")
    limits = item.get("ctx", {})
    said = words.format(**{key: _number(value) for key, value in limits.items()})
    if item["type"] != "union_tag_invalid":
        return said
    tags = [tag.strip("' ") for tag in limits["expected_tags"].split(",")]
    return said + did_you_mean(get_close_matches(limits["tag"], tags, n=1))


def _number(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, int | float) else str(value)


def _keys(
    schema: Mapping[str, Any], kinds: Mapping[str, Any], stages: Iterable[str]
) -> dict[str, list[str]]:
    """Return the keys of each section and stage, of which some depend on its kind."""
    definitions, rules = schema["$defs"], dict(schema["properties"])
    if stage := rules.pop(_STAGES, None):
        rules |= dict.fromkeys(stages, stage["additionalProperties"])
    found = {}
    for section, rule in rules.items():
        choices = rule.get("discriminator", {}).get("mapping", {})
        chosen = choices.get(kinds.get(section), rule.get("$ref", ""))
        definition = definitions.get(chosen.rpartition("/")[2], {})
        found[section] = [key for key in definition.get("properties", {}) if key != "kind"]
    return found
