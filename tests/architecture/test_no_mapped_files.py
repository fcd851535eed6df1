"""Nothing that serves maps a file: touching a page of one that was cut ends the process."""

from __future__ import annotations

import ast
from pathlib import Path

CURATOR = Path(__file__).resolve().parents[2] / "curator"
MAPS = {"mmap", "memmap", "mmap_mode", "safe_open", "from_file", "open_memmap"}
ALLOWED = {"data/scratch.py"}  # a file without a name, of a command that serves nobody


def names_in(tree: ast.AST) -> set[str]:
    """Return every name that is imported, looked up, or given as a keyword."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.keyword) and node.arg is not None:
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add(node.name.split(".")[-1])
    return names


def test_files_are_read_and_not_mapped() -> None:
    mapping = {
        str(path.relative_to(CURATOR))
        for path in CURATOR.rglob("*.py")
        if names_in(ast.parse(path.read_text())) & MAPS
    }
    assert mapping == ALLOWED
