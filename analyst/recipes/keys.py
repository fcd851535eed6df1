"""Every key of a recipe as its schema describes it, and how a command line sets one.

`--set mechanism.clip_norm=0.5` is a dotted key and a TOML value.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from analyst.recipes.errors import RecipeError
from analyst.recipes.schema import Recipe

_BARE: Final = ("training", "session")  # whose old options had no prefix
_BOUNDS: Final = {
    "minimum": "at least {:g}",
    "exclusiveMinimum": "above {:g}",
    "maximum": "at most {:g}",
    "exclusiveMaximum": "below {:g}",
}
_TYPES: Final = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "null": "",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key: what it may be, its default (None where a recipe has to state it), its meaning."""

    name: str
    kind: str
    default: str | None
    meaning: str
    is_list: bool


def recipe_keys(
    table: Mapping[str, Any] | None = None, schema: Mapping[str, Any] | None = None
) -> dict[str, Key]:
    """Return the keys of every section but `about`, by dotted name.

    Args:
        table: A recipe, whose kinds of mechanism and generator are meant; every kind if None.
        schema: Of the recipe, as JSON schema; of `analyst train`'s if None.
    """
    schema = schema or _schema()
    found: dict[str, Key] = {}
    for section, facts in schema["properties"].items():
        if section == "about":
            continue
        kind = (table or {}).get(section, {}).get("kind")
        for variant in _variants(schema, facts):
            properties = variant["properties"]
            if kind is not None and properties["kind"].get("const") != kind:
                continue
            needed = variant.get("required", ())
            for name, told in properties.items():
                if name != "kind":
                    key = f"{section}.{name}"
                    found.setdefault(key, _key(key, told, needed=name in needed))
    return dict(sorted(found.items(), key=lambda one: one[0].partition(".")[0] != "mechanism"))


@cache
def _schema() -> dict[str, Any]:
    return TypeAdapter(Recipe).json_schema()


def _variants(schema: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that a section may be."""
    for one in facts.get("oneOf") or facts.get("anyOf") or [facts]:
        yield schema["$defs"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one


def _key(name: str, told: Mapping[str, Any], *, needed: bool) -> Key:
    default = told.get("default")
    text = "" if default is None else _toml(default)
    return Key(
        name=name,
        kind=_kind(told),
        default=None if needed else text,
        meaning=told.get("description", ""),
        is_list=told.get("type") == "array",
    )


def _kind(told: Mapping[str, Any]) -> str:
    """Return what a value may be, in words."""
    if "anyOf" in told:
        return " or ".join(filter(None, map(_kind, told["anyOf"])))
    if "const" in told:
        return _toml(told["const"])
    if "enum" in told:
        return " or ".join(map(_toml, told["enum"]))
    if told.get("type") == "array":
        return f"list of {_kind(told['items'])}"
    bounds = [text.format(told[key]) for key, text in _BOUNDS.items() if key in told]
    return ", ".join([_TYPES[told["type"]], *bounds])


def _toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case _:
            return str(value)


def key_of_option(option: str) -> str | None:
    """Return the key that an option of earlier versions set; None if there was none of that name.

    Args:
        option: --optimizer-lr for optimizer.lr, --sample-every for session.sample_every.
    """
    return _old_options().get(option)


@cache
def _old_options() -> dict[str, str]:
    options = {}
    for key in recipe_keys():
        section, _, name = key.partition(".")
        text = name if section in _BARE else f"{section}-{name}"
        options["--" + text.replace("_", "-")] = key
    return options


def read_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Return what a command line sets, by dotted key.

    Args:
        assignments: Each SECTION.KEY=VALUE.

    Raises:
        RecipeError: If one has no '=', or one key is set twice.
    """
    overrides: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals:
            message = f"'--set {assignment}' has no '='"
            raise RecipeError(message, "Write --set SECTION.KEY=VALUE.")
        if key in overrides:
            message = f"'{key}' is set twice on the command line"
            raise RecipeError(message, "Keep one of the two.")
        overrides[key] = _values(text) if _is_list(key, text) else _value(text)
    return overrides


def _is_list(key: str, text: str) -> bool:
    return not text.lstrip().startswith("[") and key in recipe_keys() and recipe_keys()[key].is_list


def _values(text: str) -> list[Any]:
    return [_value(part) for part in text.split(",")]


def _value(text: str) -> Any:
    """Read a TOML value, a number such as '.5', or else the text itself."""
    text = text.strip()
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
