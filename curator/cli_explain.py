"""What `curator accountant explain` does: read a description, print the chain to epsilon."""

from __future__ import annotations

import json
import tomllib
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from curator.accounting.explain import explain
from curator.accounting.explain_text import explain_lines
from curator.mechanisms.described import read_described

_MAX_BYTES: Final = 64 * 1024


def explained(arguments: Namespace) -> Iterator[str]:
    """Yield the lines to print.

    Args:
        arguments: `spec` is inline JSON or the path of a JSON or TOML file; `epsilon`, `delta`,
            `steps` replace what it says, `nominal_size`, `dimension` and `capacity`
            add to it; `favour` is what `spec` is, of the method that the budget favours; `json` and
            `cross_check` are switches.

    Raises:
        ValueError: If the description is not valid.
    """
    overrides = {
        "epsilon": arguments.epsilon,
        "delta": arguments.delta,
        "num_steps": arguments.steps,
        "nominal_size": arguments.nominal_size,
        "dimension": arguments.dimension,
        "capacity": arguments.capacity,
    }
    run = read_described(_table(arguments.spec), overrides)
    favourite = None
    if arguments.favour is not None:
        favourite = read_described(_table(arguments.favour), overrides).favourite
    why = explain(run, cross_check=arguments.cross_check, favourite=favourite)
    if arguments.json:
        yield json.dumps(why.to_json(), indent=1, allow_nan=False)
    else:
        yield from explain_lines(why)


def _table(spec: str) -> dict[str, Any]:
    """Parse the description.

    Raises:
        ValueError: If it is not one JSON object or TOML document of at most 64 KiB.
    """
    text, is_toml = spec, False
    if not spec.lstrip().startswith("{"):
        path = Path(spec)
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        text, is_toml = content.decode("utf-8", "replace"), path.suffix != ".json"
    if len(text) > _MAX_BYTES:
        msg = "a description has at most 64 KiB"
        raise ValueError(msg)
    try:
        table = tomllib.loads(text) if is_toml else json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "TOML" if is_toml else "JSON"
        msg = f"the description is not valid {kind}: {str(error)[:200]}"
        raise ValueError(msg) from None
    if not isinstance(table, dict):
        msg = "the description must be one JSON object"
        raise ValueError(msg)  # noqa: TRY004
    return table
