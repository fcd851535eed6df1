"""Reference pages of a command line: each command with its options, and the exit codes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

MADE = "<!-- Written by scripts/reference_docs.py; change the program, not this page. -->\n"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table, with the bars of its cells escaped."""
    lines = [heads, ["-"] * len(heads), *rows]
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells) + "\n"


def program_page(title: str, program: Any, codes: type[IntEnum]) -> str:
    """Return the page of one program: each command with its options, and the exit codes."""
    name = title.split()[1]
    parts = [MADE, f"# {title}\n", sentence(program.help)]
    for words, command in _leaves(program, name):
        context = command.context_class(command, info_name=words)
        usage = [one.metavar for one in command.params if _is_argument(one)]
        usage += [one.get_help_record(context)[0] for one in command.params if _needed(one)]
        parts.append(f"## {words}\n")
        parts.append("\n\n".join(map(sentence, command.help.split("\n\n"))))
        parts.append(f"```text\n{' '.join([words, *usage])} [OPTIONS]\n```\n")
        rows = [_row(one, context) for one in command.params if not one.hidden]
        parts.append(table(["", "what"], rows))
        parts.append(f"```text\n{command.epilog}\n```\n")
    parts.append("## Exit codes\n")
    parts.append(table(["code", "name", "when"], exit_codes(codes)))
    return "\n".join(parts)


def _leaves(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, one in command.commands.items():
        yield from _leaves(one, f"{words} {name}")


def _row(one: Any, context: Any) -> list[str]:
    """Return how an option is spelt, and its help with its facts as words."""
    spelt, text = one.get_help_record(context)
    if _is_argument(one):
        spelt = one.metavar
    text = text.replace("; required]", "]").replace("[required]", "").strip()
    return [f"`{spelt}`", ("**needed.** " if _needed(one) else "") + text]


def _needed(one: Any) -> bool:
    return bool(one.required) and not _is_argument(one)


def _is_argument(one: Any) -> bool:
    return bool(one.param_type_name == "argument")


def sentence(text: str) -> str:
    """Return a text as a sentence on a line."""
    text = text.strip()
    return (text[:1].upper() + text[1:]).rstrip(".") + ".\n" if text else ""


def exit_codes(codes: type[IntEnum]) -> list[list[str]]:
    """Return the rows of a program's exit codes, with the comments that say when."""
    source = inspect.getsource(codes)
    said = dict(re.findall(r"^\s+([A-Z_]+) = \d+\s+# (.+)$", source, re.MULTILINE))
    return [[str(code.value), f"`{code.name}`", said.get(code.name, "")] for code in codes]
