"""Write the JSON schemas of all mechanisms for the analyst, or check that they are up to date.

Usage: python scripts/mechanism_schemas.py [--check]

Names, types, ranges and defaults of parameters are typed once, in the curator's specifications.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from curator.mechanisms.catalogue import (  # noqa: E402 - a script knows its own tree only
    mechanism_names,
    parameter_schema,
)

FILE = ROOT / "analyst" / "recipes" / "mechanisms.json"


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each mechanism by its wire name, without titles and prose.

    The prose is a docstring of the curator's, which says how it computes.
    """
    made = {}
    for name in mechanism_names():
        schema = parameter_schema(name)
        made[name] = {
            "type": schema["type"],
            "additionalProperties": schema["additionalProperties"],
            "required": schema["required"],
            "properties": {
                key: {word: value for word, value in rule.items() if word != "title"}
                for key, rule in schema["properties"].items()
            },
        }
    return made


def text() -> str:
    """Return the file, with one parameter a line so that a change shows what it changes."""
    parts = []
    for name, schema in schemas().items():
        rules = [f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in schema["properties"].items()]
        head = {word: value for word, value in schema.items() if word != "properties"}
        lines = [f"  {json.dumps(word)}: {json.dumps(value)}," for word, value in head.items()]
        body = "\n".join([*lines, '  "properties": {', ",\n".join(rules), "  }"])
        parts.append(f" {json.dumps(name)}: {{\n{body}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare with what is committed")
    if not parser.parse_args().check:
        FILE.write_text(text(), encoding="utf-8")
        return 0
    if FILE.exists() and FILE.read_text(encoding="utf-8") == text():
        return 0
    print(
        f"{FILE.relative_to(ROOT)} is not what the curator's specifications say: "
        "run 'python scripts/mechanism_schemas.py'",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
