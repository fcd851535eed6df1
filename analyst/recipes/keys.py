"""Every key of a recipe with its type, its range, its default and what it means.

All of it comes from the schema that validates a recipe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import TypeAdapter

from analyst.generators.configs import GENERATOR_CONFIGS
from analyst.recipes.mechanisms import MechanismConfig
from analyst.recipes.schema import OptimizerConfig, Recipe, SessionConfig, TrainingConfig

if TYPE_CHECKING:
    from analyst.adaptation.config import AdaptationRecipe

_TYPES: Final = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
}
_BOUNDS: Final = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


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
    sections: dict[str, tuple[type, ...]] = {
        "mechanism": get_args(MechanismConfig),
        "generator": GENERATOR_CONFIGS,
        "optimizer": (OptimizerConfig,),
        "training": (TrainingConfig,),
        "session": (SessionConfig,),
    }
    return [key for name, kinds in sections.items() for one in kinds for key in _keys(name, one)]


def recipe_keys(recipe: Recipe | AdaptationRecipe) -> list[RecipeKey]:
    """Return the keys that one recipe has or may have, in the order of its sections.

    Args:
        recipe: Of either command; its mechanism, and generator or move, are meant.
    """
    sections = [one.name for one in fields(recipe) if one.name != "about"]
    return [key for name in sections for key in _keys(name, type(getattr(recipe, name)))]


def _keys(section: str, config: type) -> Iterator[RecipeKey]:
    schema = TypeAdapter(config).json_schema()
    for key, rule in schema["properties"].items():
        if key != "kind":
            kind, bounds = _described(rule)
            yield RecipeKey(
                section=section,
                key=key,
                type=kind,
                range=bounds,
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
        return f"list of {kind}s", f"each {words}"
    bounds = [f"{words} {rule[name]:g}" for name, words in _BOUNDS.items() if name in rule]
    return _TYPES[rule["type"]], ", ".join(bounds)
