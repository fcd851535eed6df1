"""A hash of a function's source that comments, docstrings and layout do not change."""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path
from typing import Final

from proofs.subjects import READ, Subject
from proofs.translate import find

RECORDED: Final = Path(__file__).parent / "recorded.json"


def _plain(node: object) -> object:
    """Return a syntax tree as lists that every version of Python makes alike."""
    if isinstance(node, list):
        return [_plain(one) for one in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: value for name, value in ast.iter_fields(node) if value not in (None, [])}
    if isinstance(node, ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    told = [[name, _plain(fields[name])] for name in sorted(fields)]
    return [type(node).__name__, *told]


def code_hash(source: str, name: str) -> str:
    """Return the hash of a function, or of a module's constant.

    Args:
        source: Of the module.
        name: `function`, `Class.method` or a constant.

    Returns:
        64 hexadecimal digits.

    Raises:
        LookupError: If the module has no such thing, or several.
    """
    tree = ast.parse(source)
    found = [one for one in tree.body if isinstance(one, ast.Assign | ast.AnnAssign)]
    constants = [one for one in found if name in _targets(one)]
    node: ast.AST = constants[0] if constants else find(tree, name)
    return hashlib.sha256(json.dumps(_plain(node)).encode()).hexdigest()


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [one.id for one in targets if isinstance(one, ast.Name)]


def hashes(root: Path) -> dict[str, str]:
    """Return the hash of everything that a proof is about, by path and name."""
    return {
        key(one): code_hash((root / one.path).read_text(encoding="utf-8"), one.name) for one in READ
    }


def key(subject: Subject) -> str:
    """Return what a subject is recorded under."""
    return f"{subject.path}: {subject.name}"


def recorded() -> dict[str, str]:
    """Return the hashes at which the proofs were last looked at."""
    return dict(json.loads(RECORDED.read_text(encoding="utf-8")))


def changed(root: Path) -> list[str]:
    """Return a line for everything that is not what the proofs were made for."""
    now, then = hashes(root), recorded()
    about = {key(one): one.proofs for one in READ}
    lines = [
        f"{one} has changed: read {', '.join(about[one])} again, mend it if need be, "
        "run 'make proofs', and then 'python -m proofs --record'"
        for one in now
        if now[one] != then.get(one)
    ]
    return lines + [f"{one} is recorded and no proof is about it" for one in then if one not in now]


def record(root: Path) -> None:
    """Write the hashes of the code as it is."""
    RECORDED.write_text(json.dumps(hashes(root), indent=1, sort_keys=True) + "\n")
