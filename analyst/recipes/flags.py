"""Command-line options made from the recipe's own fields, so that none can be forgotten.

`--mechanism-clip-norm 0.5`, `--steps 200` and `--set mechanism.clip_norm=0.5` say the same kind of
thing: a dotted key and a value. `training` and `session` keys have no prefix.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from typing import Any, get_args

from pydantic.fields import FieldInfo

from analyst.generators.configs import GENERATOR_CONFIGS
from analyst.recipes.errors import RecipeError
from analyst.recipes.mechanisms import MechanismConfig
from analyst.recipes.schema import OptimizerConfig, SessionConfig, TrainingConfig

_PREFIX = "recipe:"
_SECTIONS: Mapping[str, tuple[type, ...]] = {
    "mechanism": get_args(MechanismConfig),
    "generator": GENERATOR_CONFIGS,
    "optimizer": (OptimizerConfig,),
    "training": (TrainingConfig,),
    "session": (SessionConfig,),
}
_BARE = ("training", "session")
_COMMA_SEPARATED = ("mechanism.bandwidths", "mechanism.scattering_bandwidths")


def recipe_keys() -> dict[str, str]:
    """Return every key that an option can set, with its meaning."""
    keys: dict[str, str] = {}
    for section, classes in _SECTIONS.items():
        for cls in classes:
            fields: dict[str, FieldInfo] = cls.__pydantic_fields__  # type: ignore[attr-defined]
            for name, field in fields.items():
                if name != "kind":
                    keys[f"{section}.{name}"] = _help(field)
    return keys


def flag_of(key: str) -> str:
    """Return the option of a key: --optimizer-lr for optimizer.lr, --steps for training.steps."""
    section, _, name = key.partition(".")
    text = name if section in _BARE else f"{section}-{name}"
    return "--" + text.replace("_", "-")


def add_recipe_flags(parser: argparse.ArgumentParser) -> None:
    """Add one option per key, in one group per section, and the generic `--set`."""
    parser.add_argument(
        "--set",
        dest="assignments",
        metavar="SECTION.KEY=VALUE",
        action="append",
        default=[],
        help="set any key of the recipe; may be repeated",
    )
    groups = {section: parser.add_argument_group(f"recipe: {section}") for section in _SECTIONS}
    for key, text in recipe_keys().items():
        groups[key.partition(".")[0]].add_argument(
            flag_of(key), dest=_PREFIX + key, metavar="VALUE", help=text.replace("%", "%%")
        )


def read_overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the keys that the command line sets, by dotted key.

    Raises:
        RecipeError: If a `--set` has no '=', or one key is set twice.
    """
    overrides: dict[str, Any] = {}
    for assignment in arguments.assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            message = f"'--set {assignment}' has no '='"
            raise RecipeError(message, "Write --set SECTION.KEY=VALUE.")
        _set_once(overrides, key.strip(), text)
    for name, text in vars(arguments).items():
        if name.startswith(_PREFIX) and text is not None:
            _set_once(overrides, name.removeprefix(_PREFIX), text)
    return overrides


def _set_once(overrides: dict[str, Any], key: str, text: str) -> None:
    if key in overrides:
        message = f"'{key}' is set twice on the command line"
        raise RecipeError(message, "Keep one of the two.")
    if key in _COMMA_SEPARATED and not text.lstrip().startswith("["):
        overrides[key] = [_value(part) for part in text.split(",")]
    else:
        overrides[key] = _value(text)


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


def _help(field: FieldInfo) -> str:
    text = field.description or ""
    if field.is_required() or field.default is None:
        return text
    return f"{text} [{field.default}]"
