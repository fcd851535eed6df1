"""The shape is still the shape: where private values are opened, where releases are made."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = sorted((ROOT / "curator").rglob("*.py"))


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    """Return a file's syntax, read once for all tests."""
    return list(ast.walk(ast.parse(path.read_text())))


def calls(path: Path) -> Iterator[ast.Call]:
    for node in nodes(path):
        if isinstance(node, ast.Call):
            yield node


def package(path: Path) -> str:
    return path.relative_to(ROOT / "curator").parts[0]


def places(wanted: str, *, attribute: bool) -> set[str]:
    """Return the packages of the curator in which something is called."""
    found = set()
    for path in SOURCES:
        for call in calls(path):
            function = call.func
            name = getattr(function, "attr", None) if attribute else getattr(function, "id", None)
            if name == wanted:
                found.add(package(path))
    return found


def test_private_values_are_opened_by_mechanisms_and_the_sanitizer_only() -> None:
    assert places("unseal", attribute=True) == {"mechanisms", "sanitizer"}


@pytest.mark.parametrize("name", ["Release", "LatticeBlock", "FloatBlock"])
def test_releases_are_made_in_the_sanitizer_only(name: str) -> None:
    assert places(name, attribute=False) <= {"sanitizer"}
    assert places(name, attribute=True) == set()  # release.Release(...) neither


def test_private_boxes_are_made_where_records_are_sampled_only() -> None:
    assert places("Private", attribute=False) == {"data"}


def test_the_audit_opens_nothing_and_releases_nothing() -> None:
    """It builds a box of its own for a public canary, and records what the sanitizer made."""
    doors = {"unseal", "Private", "Release", "LatticeBlock", "FloatBlock"}
    for path in (ROOT / "audit").glob("*.py"):
        for call in calls(path):
            name = getattr(call.func, "attr", None) or getattr(call.func, "id", None)
            assert name not in doors, path


def test_nobody_reaches_around_the_box() -> None:
    for path in SOURCES:
        assert "_Private__value" not in path.read_text(), path


def test_the_one_private_operation_on_wire_bytes_is_encoding_a_release() -> None:
    for path in (ROOT / "curator" / "rpc").glob("*.py"):
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                assert not node.module.startswith("curator.sanitizer"), path
                assert not node.module.startswith(("curator.data", "curator.state")), path
                assert node.module != "curator.privacy.private", path


def test_no_assertion_guards_production_code() -> None:
    for path in [*SOURCES, *(ROOT / "analyst").rglob("*.py"), *(ROOT / "audit").glob("*.py")]:
        for node in nodes(path):
            assert not isinstance(node, ast.Assert), path


def test_debias_rows_never_meet_private_data() -> None:
    """The function that computes them takes no argument whose annotation names private data."""
    path = ROOT / "curator" / "divergences" / "sinkhorn.py"
    (function,) = [
        node
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and node.name == "public_half"
    ]
    every = [*function.args.args, *function.args.kwonlyargs, *function.args.posonlyargs]
    words = " ".join(ast.unparse(one) for one in every)
    assert "records" not in words
    assert "Private" not in words
    assert "mask" not in words
