"""Questions are answered at once: what takes seconds to import is imported where it is used."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.conftest import digits_folder

ROOT = Path(__file__).parents[3]
HEAVY = ("torch", "sklearn", "scipy", "geomloss", "opacus", "numba", "matplotlib", "xgboost")
PROGRAM = """
import json, os, sys
from {package}.cli import main
for argv in json.loads(sys.stdin.read()):
    if not os.fork():
        try:
            code = main(argv)
        except SystemExit as end:
            code = end.code
        print("imported:", code, *sorted(set(sys.modules) & set({heavy!r})), file=sys.stderr)
        os._exit(0)
    os.wait()
"""
NOWHERE = ["--curator", "localhost:9", "--insecure-loopback", "--timeout", "0.2"]


def imported(package: str, *commands: Sequence[str], code: int) -> set[str]:
    """Run commands one after the other; return which slow packages they imported.

    Each is a process of its own, forked off one that has imported the program and nothing else.
    """
    program = PROGRAM.format(package=package, heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        cwd=ROOT,
        input=json.dumps(commands),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    lines = [one.split() for one in done.stderr.splitlines() if one.startswith("imported:")]
    assert [line[1] for line in lines] == [str(code)] * len(commands), done.stderr
    return {package for line in lines for package in line[2:]}


@pytest.mark.parametrize("package", ["analyst", "curator"])
def test_help_imports_nothing_slow(package: str) -> None:
    commands = ["--help"], ["budget", "--help"], ["plan", "--help"], ["completion", "zsh"]
    assert not imported(package, *commands, code=0)


def test_asking_a_curator_imports_nothing_slow() -> None:
    plan = ["plan", *NOWHERE, "--recipe", "dp-sinkhorn-digits", "--mechanism-noise-multiplier", "2"]
    several = ["budget", *NOWHERE[2:], "--curator", "localhost:9", "--curator", "localhost:10"]
    commands = ["budget", *NOWHERE], plan, several
    assert not imported("analyst", *commands, code=7)  # nobody answers; all is imported by then


def test_the_list_of_recipes_imports_nothing_slow() -> None:
    assert not imported("analyst", ["recipes"], code=0)


def test_the_steward_s_budget_imports_nothing_slow(tmp_path: Path) -> None:
    folder = str(tmp_path / "weir")
    commands = ["budget"], ["key", "--json"], ["analyst", "list"]
    reading = [[*words, "--dir", folder] for words in commands]
    assert not imported("curator", ["init", folder], *reading, code=0)


def test_looking_at_data_sets_imports_nothing_slow(tmp_path: Path) -> None:
    folder = str(digits_folder(tmp_path / "weir").root)
    commands = ["dataset", "list"], ["ledger", "show"], ["budget"]
    assert not imported("curator", *([*words, "--dir", folder] for words in commands), code=0)


def test_this_test_sees_what_is_slow() -> None:
    argv = ["sample", "--out-of", "nowhere", "--count", "1", "--out", "x.npz"]
    assert "torch" in imported("analyst", argv, code=4)
