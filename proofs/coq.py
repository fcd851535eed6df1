"""Let Coq check the proofs against the code as it is."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from proofs.subjects import CONSTANTS, FUNCTIONS, THEOREMS
from proofs.translate import Untranslated, code

SOURCES: Final = Path(__file__).parent / "coq"
_FIRST: Final = ("Python", "Code")
_UNPROVED: Final = re.compile(
    r"\b(Admitted|admit|Axioms?|Parameters?|Conjecture|Hypothes[ie]s|Variables?|Context|Abort"
    r"|bypass_check|Unset\s+Guard|Unset\s+Positivity|Unset\s+Universe|type_in_type)\b"
)
_AXIOMS: Final = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
"""Those that Coq's own library of real numbers rests on, and no other."""


class Unproved(Exception):
    """What Coq, or the reading of its files, did not accept."""


def compiler() -> str | None:
    """Return Coq's compiler, if it is installed."""
    return shutil.which("coqc")


def check(root: Path, folder: Path, files: Sequence[str] = tuple(THEOREMS)) -> dict[str, list[str]]:
    """Translate the code of `root` and prove the theorems about it.

    Args:
        root: Of the repository, or of a copy.
        folder: An empty one, to work in; compiled files that are there already are kept.
        files: Which proofs, in an order in which none needs a later one.

    Returns:
        For each theorem the axioms that it rests on.

    Raises:
        Unproved: If anything is not proved.
    """
    try:
        text = code(root, CONSTANTS, FUNCTIONS)
    except (Untranslated, LookupError) as error:
        raise Unproved(str(error)) from error
    (folder / "Code.v").write_text(text)
    for name in ("Python", *files):
        source = _source(name)
        if found := _UNPROVED.search(without_comments(source)):
            msg = f"{name}.v leaves something unproved: {found.group()}"
            raise Unproved(msg)
        (folder / f"{name}.v").write_text(source)
    for name in (*_FIRST, *files):
        if name == "Code" or not (folder / f"{name}.vo").exists():
            compile_file(folder, name)
    return _axioms(folder, files)


def compile_file(folder: Path, name: str) -> str:
    """Return what Coq prints of a file.

    Raises:
        Unproved: If it refuses it.
    """
    done = subprocess.run(
        ["coqc", "-q", "-Q", ".", "Weir", f"{name}.v"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        msg = f"Coq does not accept {name}.v:\n{done.stderr.strip()}"
        raise Unproved(msg)
    return done.stdout


def _axioms(folder: Path, files: Sequence[str]) -> dict[str, list[str]]:
    """Return what each theorem rests on.

    Raises:
        Unproved: If that is more than the library of real numbers needs.
    """
    theorems = [(name, theorem) for name in files for theorem in THEOREMS[name]]
    lines = [f"From Weir Require {' '.join(_FIRST)} {' '.join(files)}."]
    lines += [f"Print Assumptions {name}.{theorem}." for name, theorem in theorems]
    (folder / "Assumptions.v").write_text("\n".join(lines))
    printed = compile_file(folder, "Assumptions")
    answers = re.split(r"^(?=Closed under|Axioms:)", printed, flags=re.MULTILINE)[1:]
    if len(answers) != len(theorems):
        msg = f"Coq did not say what each theorem rests on:\n{printed}"
        raise Unproved(msg)
    rests: dict[str, list[str]] = {}
    for (name, theorem), answer in zip(theorems, answers, strict=True):
        found = re.findall(r"^([\w.']+)(?=$| *:)", answer.partition("Axioms:")[2], re.MULTILINE)
        if unknown := set(found) - _AXIOMS:
            msg = f"{name}.{theorem} rests on {', '.join(sorted(unknown))}"
            raise Unproved(msg)
        rests[f"{name}.{theorem}"] = found
    return rests


def requires(file: str, other: str) -> bool:
    """Return whether a file of proofs uses another, itself or by one between."""
    found = re.search(r"^From Weir Require Import ([\w ]+)\.", _source(file), re.MULTILINE)
    used = found.group(1).split() if found else []
    return other in used or any(requires(one, other) for one in used if one != "Code")


def depends_on_code(file: str) -> bool:
    """Return whether a compiled file is worth nothing once the code has changed."""
    return file in {"Code", "Assumptions"} or requires(file, "Code")


def _source(file: str) -> str:
    return (SOURCES / f"{file}.v").read_text()


def without_comments(source: str) -> str:
    """Return a file of Coq without comments, which may be inside each other."""
    while True:
        shorter = re.sub(r"\(\*(?:(?!\(\*|\*\)).)*\*\)", " ", source, flags=re.DOTALL)
        if shorter == source:
            return source
        source = shorter
