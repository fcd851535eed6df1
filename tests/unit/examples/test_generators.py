"""The two example programs: the plain one runs, and the private one differs by three lines."""

from __future__ import annotations

import difflib
import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
PLAIN, PRIVATE = EXAMPLES / "plain_generator.py", EXAMPLES / "private_generator.py"


def training(path: Path) -> list[str]:
    """Return the generator and the loop, without what only holders of images need."""
    text = path.read_text()
    generator = text[text.index("class Generator") : text.index("\n\n\ndef ")]
    return (generator + text[text.index("def main") :]).splitlines()


def test_three_lines_differ() -> None:
    difference = list(difflib.ndiff(training(PLAIN), training(PRIVATE)))
    added = [line[2:].strip() for line in difference if line.startswith("+ ")]
    removed = [line[2:].split("  # ")[0].strip() for line in difference if line.startswith("- ")]
    assert removed == [
        "batches = load_batches()",
        "distance(images, labels, *next(batches)).backward()",
    ]
    assert len(added) == 2
    assert added[0].startswith("run = analyst.connect(")
    assert added[1] == "run.backward(images, labels)"
    imports = [
        {line for line in path.read_text().splitlines() if line.startswith("import ")}
        for path in (PLAIN, PRIVATE)
    ]
    assert imports[1] - imports[0] == {"import analyst"}


def test_the_private_program_knows_no_images() -> None:
    assert "sklearn" not in PRIVATE.read_text()
    assert "load_digits" in PLAIN.read_text()


def test_the_plain_program_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "digits.npz"
    monkeypatch.setattr("sys.argv", ["plain_generator.py", "30", str(out)])
    runpy.run_path(str(PLAIN), run_name="__main__")
    with np.load(out) as made:
        assert made["images"].shape == (1000, 8, 8)
        assert made["images"].dtype == np.uint8
        # the corners of digits are black: 127 before learning
        assert made["images"][:, :, 0].mean() < 100
