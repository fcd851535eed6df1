"""Every mechanism has its proof beside it, and every reference its entry."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from curator.mechanisms.catalogue import mechanism_names

ROOT = Path(__file__).resolve().parent.parent.parent
MECHANISMS = ROOT / "curator" / "mechanisms"
PROOFS = [
    *(MECHANISMS / f"{name.replace('-', '_')}.md" for name in mechanism_names()),
    ROOT / "curator" / "sanitizer" / "sanitizer.md",
    ROOT / "curator" / "data" / "sampling.md",
]
TESTS: dict[str, str] = {}
for one in (ROOT / "tests").rglob("test_*.py"):  # several folders may have a file of one name
    TESTS[one.name] = TESTS.get(one.name, "") + one.read_text()
MADE = re.compile(r"def (test_\w+)\(|^(test_\w+)(?=, )|, (test_\w+) = both_ways", re.MULTILINE)
FUNCTIONS = {name for text in TESTS.values() for names in MADE.findall(text) for name in names}
INTERFACE = {"setup", "start", "gradient", "setup_event", "step_event", "check_samples"}
KEY = re.compile(r"\[([a-z]+:\d{2})\]")


@pytest.mark.parametrize("path", PROOFS, ids=lambda path: path.name)
def test_a_proof_has_its_parts_and_names_tests_that_exist(path: Path) -> None:
    text = path.read_text()
    for part in ("Statement", "Assumptions", "Neighbouring relation", "Proof"):
        assert re.search(rf"^## {part}$", text, re.MULTILINE), part
    files = set(re.findall(r"\btest_\w+\.py\b", text))
    functions = set(re.findall(r"::(test_\w+)", text))
    assert files
    assert functions
    assert files <= set(TESTS)
    assert functions <= FUNCTIONS


def docstrings(path: Path) -> list[tuple[str, str]]:
    """Return the functions of the mechanisms' interface in a file, with their docstrings."""
    nodes = ast.walk(ast.parse(path.read_text()))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return [(one.name, ast.get_docstring(one) or "") for one in functions if one.name in INTERFACE]


@pytest.mark.parametrize("path", sorted(MECHANISMS.glob("*.py")), ids=lambda path: path.name)
def test_every_function_of_a_mechanism_says_what_it_means_for_privacy(path: Path) -> None:
    for name, text in docstrings(path):
        assert "Privacy:" in text, f"{path.name}: {name}"


def test_every_reference_is_in_the_bibliography() -> None:
    known = set(re.findall(r"@\w+\{([^,]+),", (ROOT / "docs" / "references.bib").read_text()))
    for path in [*(ROOT / "curator").rglob("*.py"), *PROOFS]:
        for key in KEY.findall(path.read_text()):
            assert key in known, f"{path.name}: {key}"
