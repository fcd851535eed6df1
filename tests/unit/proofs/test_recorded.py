"""Whoever changes what a proof is about is told which proof to read again."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from proofs.code_hash import changed, code_hash
from proofs.subjects import CONSTANTS, FUNCTIONS, GAUSSIAN, LATTICE, READ
from tests.proofs.copies import MUTANTS, mutated

ROOT = Path(__file__).resolve().parents[3]
SOURCE = (ROOT / LATTICE).read_text()


def test_the_code_is_what_the_proofs_were_made_for() -> None:
    assert changed(ROOT) == []


def test_all_that_is_translated_is_recorded() -> None:
    read = {(one.path, one.name) for one in READ}
    assert len(read) == len(READ)
    assert {(path, name) for path, name, _ in CONSTANTS} <= read
    assert {(one.path, one.name) for one in FUNCTIONS} <= read


def test_every_proof_that_is_named_exists() -> None:
    for one in READ:
        for proof in one.proofs:
            assert (ROOT / "proofs" / proof).is_file(), proof


def test_words_do_not_change_a_hash() -> None:
    spaced = SOURCE.replace(
        "    flat = integers", "    # a remark\n\n    flat = (integers"
    ).replace("reshape(-1)\n", "reshape(-1))\n")
    retold = spaced.replace("Return the exact squared norm", "Give it")
    assert retold != SOURCE
    assert code_hash(retold, "squared_norm") == code_hash(SOURCE, "squared_norm")


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("squared_norm", "flat.clamp(-radius - 1", "flat.clamp(-radius"),
        ("is_certified", "<= radius**2", "<= radius**2 + 1"),
        ("_CHUNK", "1 << 16", "1 << 17"),
        ("lattice_radius", "math.isqrt(square)", "math.isqrt(square) + 1"),
    ],
)
def test_a_change_changes_the_hash(name: str, before: str, after: str) -> None:
    assert before in SOURCE
    assert code_hash(SOURCE.replace(before, after), name) != code_hash(SOURCE, name)


def test_what_is_gone_is_named() -> None:
    with pytest.raises(LookupError, match="no_such_function"):
        code_hash(SOURCE, "no_such_function")


def test_no_other_table_is_built() -> None:
    """The intervals are of parameter 512; whoever asks for another one has none."""
    builders = {"one_sided_cdf", "inversion_entries", "invert"}
    calls = 0
    for package in ("curator", "analyst", "audit"):
        for path in (ROOT / package).rglob("*.py"):
            if path == ROOT / GAUSSIAN:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in builders:
                    calls += 1
                    most = 2 if ast.unparse(node.func) == "invert" else 0
                    assert len(node.args) <= most, ast.unparse(node)
                    assert not node.keywords, ast.unparse(node)
    assert calls >= 3


def test_every_mutant_can_still_be_made() -> None:
    """What they do to the proofs is for 'make proofs'."""
    changes = [mutant for mutants in MUTANTS.values() for mutant in mutants.values()]
    assert len(changes) > 30
    for mutant in changes:
        assert ast.parse(mutated(mutant)) is not None
