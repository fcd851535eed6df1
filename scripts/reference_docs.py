"""Write the reference pages out of the programs themselves, or check that they are up to date.

Usage: python scripts/reference_docs.py [--check]

Commands come from the programs' own, configuration from the models and the template's comments,
REST from its OpenAPI schema, the wire from the comments of the .proto files.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from pydantic import BaseModel

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from analyst.cli.app import program as analyst_program  # noqa: E402 - a script knows its own tree
from analyst.cli.exit_code import ExitCode as AnalystCode  # noqa: E402
from curator.cli.app import program as curator_program  # noqa: E402
from curator.cli.exit_code import ExitCode as CuratorCode  # noqa: E402
from curator.config import TEMPLATE, CuratorConfig  # noqa: E402
from curator.rest.app import create_app  # noqa: E402
from scripts.command_pages import MADE, program_page, sentence, table  # noqa: E402

PAGES = ROOT / "docs" / "reference"


def configuration_page() -> str:
    """Return the page of `curator.toml`: every key with its type, default, limits and meaning."""
    said = dict(_template_comments())
    parts = [MADE, "# curator.toml\n"]
    parts.append("Every key is optional; an unknown key is an error. `curator init` writes the ")
    parts[-1] += "file with all of them. Budgets and sizes are not here: they are in the ledger.\n"
    for section, field in CuratorConfig.model_fields.items():
        model = field.annotation
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            continue
        schema = model.model_json_schema()
        rows = []
        for key, facts in schema["properties"].items():
            default = model.model_fields[key].default
            limits = _limits(facts)
            rows.append([f"`{key}`", _type(facts), f"`{_toml(default)}`", limits])
            rows[-1].append(said.get(f"{section}.{key}", ""))
        parts.append(f"## [{section}]\n\n{sentence(model.__doc__ or '')}")
        parts.append(table(["key", "type", "default", "limits", "meaning"], rows))
    return "\n".join(parts)


def _template_comments() -> Iterator[tuple[str, str]]:
    section, above = "", ""
    for line in TEMPLATE.splitlines():
        if found := re.match(r"\[(\w+)\]$", line):
            section, above = found[1], ""
        elif found := re.match(r"(?:# )?(\w+) = (?:\"[^\"]*\"|[^#]*?)\s*(?:# (.+))?$", line):
            yield f"{section}.{found[1]}", (found[2] or above).strip()
            above = ""
        elif line.startswith("# "):
            above = f"{above} {line[2:]}"


def _type(facts: dict[str, Any]) -> str:
    if "anyOf" in facts:
        return " or ".join(_type(one) for one in facts["anyOf"] if one.get("type") != "null")
    if "allOf" in facts or "$ref" in facts:
        return "choice"
    return {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
    }.get(facts["type"], str(facts["type"]))


def _limits(facts: dict[str, Any]) -> str:
    facts = {**facts, **{k: v for one in facts.get("anyOf", []) for k, v in one.items()}}
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    return ", ".join(f"{sign} {facts[key]:g}" for key, sign in signs.items() if key in facts)


def _toml(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def rest_page() -> str:
    """Return the page of the REST API, out of its OpenAPI schema."""
    nothing = MagicMock()  # the schema asks for the routes alone
    schema = create_app(nothing, nothing, nothing, nothing).openapi()
    parts = [MADE, "# REST\n", str(schema["info"]["summary"]) + "\n"]
    parts.append(
        "Send `Authorization: Bearer TOKEN`, or a client certificate. Errors are "
        "[problems](errors.md). A running curator serves this schema at `/openapi.json`.\n"
    )
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts.append(f"## {method.upper()} {path}\n\n{operation.get('description', '')}\n")
            content = operation["responses"]["200"].get("content", {})
            answer = content.get("application/json", {}).get("schema", {})
            asked = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if asked:
                words = asked["schema"].get("description", "")
                parts += [f"Asks, as JSON. {words}\n", _fields(asked["schema"])]
            query = [one for one in operation.get("parameters", ()) if one["in"] == "query"]
            if told := {one["name"]: {**one["schema"], **one} for one in query}:
                parts += ["In the query:\n", _fields({"properties": told})]
            parts.append(f"Answers {_shape(answer)}.\n")
    for name, model in sorted(schema["components"]["schemas"].items()):
        parts.append(f"## {name}\n\n{(model.get('description') or '').strip()}\n")
        if model.get("properties"):
            parts.append(_fields(model))
    return "\n".join(parts)


def _fields(model: dict[str, Any]) -> str:
    needed = set(model.get("required", ())) if "default" in str(model) else set()
    rows = [
        [
            f"`{key}`",
            _shape(facts),
            ("**needed.** " if key in needed else "") + str(facts.get("description", "")),
        ]
        for key, facts in model["properties"].items()
    ]
    return table(["field", "type", "meaning"], rows)


def _shape(facts: dict[str, Any]) -> str:
    if "$ref" in facts:
        name = facts["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in facts:
        return " or ".join(_shape(one) for one in facts["anyOf"])
    if facts.get("type") == "array":
        return f"a list of {_shape(facts.get('items', {}))}"
    return f"{facts.get('type', 'any JSON')}"


def protocol_page() -> str:
    """Return the page of the wire, out of the .proto files."""
    parts = [MADE, "# Protocol\n"]
    parts.append("The package is `weir.v1`; it only grows. Services and messages, file by file.\n")
    for path in sorted((ROOT / "protos" / "weir" / "v1").glob("*.proto")):
        parts.append(f"## {path.name}\n")
        comment: list[str] = []
        rows: list[list[str]] = []
        for line in path.read_text().splitlines():
            stripped = line.strip()
            if stripped.startswith("//"):
                comment.append(stripped[2:].strip())
                continue
            if found := re.match(r"(message|enum|service) (\w+)", stripped):
                parts.append(f"### {found[2]}\n\n{' '.join(comment)}\n".rstrip() + "\n")
            elif found := re.match(r"rpc (.+);$", stripped):
                rows.append([f"`{found[1]}`", " ".join(comment)])
            elif found := re.match(r"((?:repeated )?[\w.]+ )?(\w+) = (\d+);$", stripped):
                rows.append([f"`{found[3]}` `{(found[1] or '')}{found[2]}`", " ".join(comment)])
            elif line == "}" and rows:
                parts.append(table(["", "meaning"], rows))
                rows = []
            comment = []
    return "\n".join(parts)


def pages() -> dict[str, str]:
    """Return the text of every page by its file's name."""
    return {
        "curator.md": program_page("The curator command", curator_program(), CuratorCode),
        "analyst.md": program_page("The analyst command", analyst_program(), AnalystCode),
        "configuration.md": configuration_page(),
        "rest.md": rest_page(),
        "protocol.md": protocol_page(),
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare with what is there")
    made = pages()
    old = [n for n, t in made.items() if not (PAGES / n).exists() or (PAGES / n).read_text() != t]
    if not parser.parse_args().check:
        for name in old:
            (PAGES / name).write_text(made[name])
        return 0
    for name in old:
        print(f"docs/reference/{name}: run 'python scripts/reference_docs.py'", file=sys.stderr)
    return bool(old)


if __name__ == "__main__":
    sys.exit(main())
