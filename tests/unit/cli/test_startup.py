"""Questions are answered at once: what takes seconds to import is imported where it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import digits_folder

ROOT = Path(__file__).parents[3]
HEAVY = ("torch", "sklearn", "scipy", "geomloss", "opacus", "numba", "matplotlib", "xgboost")
PROGRAM = """
import sys
from {package}.cli import main
try:
    code = main({argv!r})
except SystemExit as end:
    code = end.code
print("imported:", *sorted(set(sys.modules) & set({heavy!r})), file=sys.stderr)
sys.exit(code)
"""
NOWHERE = ["--curator", "localhost:9", "--insecure-loopback", "--timeout", "0.2"]


def imported(package: str, *argv: str, code: int) -> set[str]:
    """Run a command in a process of its own; return which slow packages it imported."""
    program = PROGRAM.format(package=package, argv=list(argv), heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    (line,) = (one for one in done.stderr.splitlines() if one.startswith("imported:"))
    return set(line.split()[1:])


@pytest.mark.parametrize("package", ["analyst", "curator"])
@pytest.mark.parametrize("argv", [("--help",), ("budget", "--help"), ("plan", "--help")])
def test_help_imports_nothing_slow(package: str, argv: tuple[str, ...]) -> None:
    assert not imported(package, *argv, code=0)


@pytest.mark.parametrize(
    "argv",
    [
        ("budget", *NOWHERE),
        ("plan", *NOWHERE, "--recipe", "dp-sinkhorn-digits", "--mechanism-noise-multiplier", "2"),
        ("budget", *NOWHERE[2:], "--curator", "localhost:9", "--curator", "localhost:10"),
    ],
    ids=["budget", "plan", "budget of several"],
)
def test_asking_a_curator_imports_nothing_slow(argv: tuple[str, ...]) -> None:
    assert not imported("analyst", *argv, code=7)  # nobody answers; all is imported by then


def test_recipes_and_completion_import_nothing_slow() -> None:
    assert not imported("analyst", "recipes", code=0)
    assert not imported("analyst", "completion", "bash", code=0)
    assert not imported("curator", "completion", "zsh", code=0)


def test_the_steward_s_budget_imports_nothing_slow(tmp_path: Path) -> None:
    folder = str(tmp_path / "weir")
    assert not imported("curator", "init", folder, code=0)
    assert not imported("curator", "budget", "--dir", folder, code=0)
    assert not imported("curator", "key", "--dir", folder, "--json", code=0)
    assert not imported("curator", "analyst", "list", "--dir", folder, code=0)


def test_looking_at_data_sets_imports_nothing_slow(tmp_path: Path) -> None:
    folder = str(digits_folder(tmp_path / "weir").root)
    for words in (("dataset", "list"), ("ledger", "show"), ("budget",)):
        assert not imported("curator", *words, "--dir", folder, code=0)


def test_this_test_sees_what_is_slow() -> None:
    assert "torch" in imported("analyst", "sample", "--out-of", "nowhere", "--count", "1",
                               "--out", "x.npz", code=4)  # fmt: skip
