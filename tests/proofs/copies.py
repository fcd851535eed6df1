"""Copies of the code in which one thing is wrong."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import NamedTuple

from proofs.subjects import READ

ROOT = Path(__file__).resolve().parents[2]


class Mutant(NamedTuple):
    """A change of one file."""

    path: str
    before: str
    after: str


MUTANTS = {
    proof: {name: Mutant(**mutant) for name, mutant in mutants.items()}
    for proof, mutants in tomllib.loads(
        Path(__file__).with_name("mutants.toml").read_text()
    ).items()
}
"""By proof, and by name."""


def mutated(mutant: Mutant) -> str:
    """Return the changed file's text."""
    source = (ROOT / mutant.path).read_text()
    assert source.count(mutant.before) == 1, f"not once in {mutant.path}: {mutant.before}"
    return source.replace(mutant.before, mutant.after)


def copy_of_code(folder: Path, mutant: Mutant) -> Path:
    """Copy the files that proofs are about, and change one of them.

    Returns:
        The root of the copy.
    """
    for path in {one.path for one in READ}:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, target)
    (folder / mutant.path).write_text(mutated(mutant))
    return folder
