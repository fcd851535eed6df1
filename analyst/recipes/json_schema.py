"""Types out of a JSON schema, so that pydantic checks a value and says what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import Field


@cache
def read_data(name: str) -> dict[str, Any]:
    """Return what a JSON file beside this one says."""
    content: dict[str, Any] = json.loads(
        (resources.files("analyst.recipes") / name).read_text("utf-8")
    )
    return content


def type_of(rule: Mapping[str, Any]) -> Any:
    """Return the type that a rule of a JSON schema means, with its bounds."""
    match rule:
        case {"anyOf": [only, {"type": "null"}]}:
            return type_of(only) | None
        case {"enum": values}:
            return Literal[tuple(values)]
        case {"const": value}:
            return Literal[value]
        case {"type": "array", "items": item}:
            length = Field(min_length=rule.get("minItems"), max_length=rule.get("maxItems"))
            return Annotated[tuple[type_of(item), ...], length]  # type: ignore[misc]
        case {"type": "string"}:
            return Annotated[str, Field(pattern=rule.get("pattern"))]
        case _:
            return _number(rule)


def _number(rule: Mapping[str, Any]) -> Any:
    bounds = Field(
        ge=rule.get("minimum"),
        le=rule.get("maximum"),
        gt=rule.get("exclusiveMinimum"),
        lt=rule.get("exclusiveMaximum"),
    )
    return Annotated[int, bounds] if rule["type"] == "integer" else Annotated[float, bounds]
