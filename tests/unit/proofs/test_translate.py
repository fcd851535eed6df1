"""What is written for Coq says what the code says, and nothing is left out silently."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from proofs.subjects import CONSTANTS, FUNCTIONS
from proofs.translate import Function, Untranslated, code, definition, find

ROOT = Path(__file__).resolve().parents[3]


def translated(source: str, *types: str) -> str:
    tree = ast.parse(source)
    (node,) = (one for one in tree.body if isinstance(one, ast.FunctionDef))
    function = Function(path="", name=node.name, coq="f", types=types)
    return definition(function, find(tree, node.name), {"_LIMIT": "LIMIT"}).split(":=\n  ", 1)[1]


def test_the_code_is_translated() -> None:
    text = code(ROOT, CONSTANTS, FUNCTIONS)
    for _, _, name in CONSTANTS:
        assert text.count(f"Definition {name} :=") == 1
    for function in FUNCTIONS:
        assert text.count(f"Definition {function.coq} (") == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return x <= _LIMIT**2", "(py_le x (py_pow LIMIT (2)))."),
        ("y = -x - 1\n    return y", "let y := (py_sub (py_neg x) (1)) in\n  y."),
        ("return sum(a * a for a in x)", "(py_sum (py_map x (fun a => (py_mul a a))))."),
        ("return x.clamp(-x - 1, x)", "(clamp x (py_sub (py_neg x) (1)) x)."),
        ("return x.sum(dim=1)", "(sum_dim_1 x)."),
        ("return not any(x) and None not in x", "((negb (py_truth (py_any x))) && "),
    ],
)
def test_operations(line: str, expected: str) -> None:
    assert translated(f"def f(x: int) -> int:\n    {line}\n", "Z").startswith(expected)


def test_raising_is_none_and_a_result_is_some() -> None:
    source = "def f(x: int) -> int:\n    if x < 1:\n        raise ValueError\n    return x\n"
    assert translated(source, "Z") == "if ((py_lt x (1)) : bool) then None else\n  Some x.\n"


@pytest.mark.parametrize(
    "line",
    [
        "return x / y.item()",
        "return x.sum(dim=0)",
        "return x.sum()",
        "return x if x else -x if y else y ** 2 @ x",
        "while x:\n        x -= 1",
        "x += 1\n    return x",
        "return [a for a in x if a > 1]",
        "return torch.dot(x, y, out=x)",
        "x, y = y, x\n    return x",
        "if x < 1:\n        x = 1\n    return x",
        "return x.new_zeros(y, dtype=int)",
        "return tuple(x, key=y)",
        "return x >= y",
    ],
)
def test_what_has_no_translation_is_refused(line: str) -> None:
    with pytest.raises(Untranslated, match="no translation"):
        translated(f"def f(x: int, y: int) -> int:\n    {line}\n", "Z", "Z")


def test_a_new_parameter_is_refused() -> None:
    with pytest.raises(Untranslated):
        translated("def f(x: int, y: int) -> int:\n    return x\n", "Z")
