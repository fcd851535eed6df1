"""Every key of a recipe with its type, its range, its default and what it means.

All of it comes from what validates a recipe, so that none can be forgotten or be out of date.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from analyst.generators.configs import GENERATOR_CONFIGS
from analyst.recipes.mechanisms import OF_OTHERS, mechanism_config, mechanism_names
from analyst.recipes.schema import OptimizerConfig, SessionConfig, TrainingConfig

if TYPE_CHECKING:
    from analyst.chains.recipe import ChainRecipe
    from analyst.recipes.books import AnyRecipe

_TYPES: Final = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "object": "keys with values",
}
_BOUNDS: Final = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}
_LARGE: Final = 1 << 32  # from here on a power of two is easier to read


@dataclass(frozen=True, kw_only=True, slots=True)
class RecipeKey:
    """One key, as it may be printed."""

    section: str
    key: str
    type: str
    range: str  # empty if every value of the type will do
    default: Any  # None if it need not be stated and stands for what `sentence` says
    is_required: bool
    sentence: str

    @property
    def path(self) -> str:
        """How `--set` names it."""
        return f"{self.section}.{self.key}"


def all_keys() -> list[RecipeKey]:
    """Return the keys of all mechanisms and generators of `analyst train`; many more than once."""
    names = (name for name in mechanism_names() if name not in OF_OTHERS)
    sections: dict[str, Sequence[type]] = {
        "mechanism": [mechanism_config(name) for name in names],
        "generator": GENERATOR_CONFIGS,
        "optimizer": [OptimizerConfig],
        "training": [TrainingConfig],
        "session": [SessionConfig],
    }
    return [
        key for name, classes in sections.items() for one in classes for key in _keys_of(name, one)
    ]


def keys_by_section() -> dict[str, list[str]]:
    """Return the names of all keys of `analyst train`, in the order of their sections."""
    found: dict[str, dict[str, None]] = {}
    for one in all_keys():
        found.setdefault(one.section, {})[one.key] = None
    return {section: list(keys) for section, keys in found.items()}


def recipe_keys(recipe: AnyRecipe | ChainRecipe) -> list[RecipeKey]:
    """Return the keys that one recipe has or may have, in the order of its sections."""
    sections = sections_of(recipe).items()
    return [key for name, section in sections for key in _keys_of(name, type(section))]


def sections_of(recipe: AnyRecipe | ChainRecipe) -> dict[str, Any]:
    """Return the sections of a recipe by name, and the stages of a chain after its own."""
    found = {one.name: getattr(recipe, one.name) for one in fields(recipe) if one.name != "about"}
    stages: dict[str, Any] = found.pop("stage", {})
    return found | stages


def _keys_of(section: str, config: type) -> Iterator[RecipeKey]:
    """Yield the keys of one section; `kind`, which chooses the section's keys, is none of them."""
    schema = TypeAdapter(config).json_schema()
    for key, rule in schema["properties"].items():
        if key != "kind":
            type_, range_ = _described(rule)
            yield RecipeKey(
                section=section,
                key=key,
                type=type_,
                range=range_,
                default=rule.get("default"),
                is_required=key in schema.get("required", ()),
                sentence=rule.get("description", ""),
            )


def _described(rule: Mapping[str, Any]) -> tuple[str, str]:
    """Return type and range of a value in words."""
    if "anyOf" in rule:
        parts = [_described(one) for one in rule["anyOf"] if one != {"type": "null"}]
        return " or ".join(kind for kind, _ in parts), ", or ".join(words for _, words in parts)
    if "enum" in rule or "const" in rule:
        return "text", " | ".join(map(str, rule.get("enum", [rule.get("const")])))
    if rule.get("type") == "array":
        kind, words = _described(rule["items"])
        most = f"up to {rule['maxItems']}, " if "maxItems" in rule else ""
        return f"list of {kind}s", f"{most}each {words}"
    bounds = [f"{words} {_number(rule[name])}" for name, words in _BOUNDS.items() if name in rule]
    return _TYPES[rule["type"]], ", ".join(bounds)


def _number(value: float) -> str:
    whole = int(value)
    if whole >= _LARGE and whole & (whole - 1) == 0:
        return f"2^{whole.bit_length() - 1}"
    return f"{whole:,}" if value == whole else f"{value:g}"
