"""Rows, the page that shows them, and the plot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.papers import __main__ as command_line
from benchmarks.papers.catalogue import Cell, Table, table_named
from benchmarks.papers.make import Asked, is_missing
from benchmarks.papers.page import BEGIN, PAGE, page_text, section
from benchmarks.papers.plot import figure, lines_of
from benchmarks.papers.rows import (
    COMMITTED,
    TRIAL,
    Measured,
    adopted,
    append_row,
    is_of,
    read_rows,
    row_of,
)

COMMON = {"kind": "trained", "count": 5, "epsilon": 10.0, "delta": 1e-5, "claimed": 10.0}
TABLE = Table(
    name="t",
    paper="P",
    place="table 1",
    what="It.",
    columns=("mlp",),
    content={
        "common": {**COMMON, "method": "M", "seconds": 60},
        "cell": [
            {"name": "a", "published": {"mlp": 80.5}, "source": "the text"},
            {"name": "b", "why_not": "there are no such images"},
        ],
    },
)
CELL, OTHER = TABLE.cells("cpu")


def _row(cell: Cell = CELL, seed: int = 0, *, mlp: float = 70.0, epsilon: float = 9.9) -> Any:
    points = [{"step": 5, "epsilon": 4.0, "values": {"mlp": 30.0}}]
    measured = Measured(
        values={"mlp": mlp},
        seconds=30,
        core_seconds=3,
        epsilon=epsilon,
        points=points,
        details={"data": "d"},
    )
    return row_of(cell, seed, measured)


def test_a_row_is_of_its_cell_until_the_settings_change() -> None:
    row = _row()
    assert is_of(row, CELL)
    assert not is_of(row, replace(CELL, name="c"))
    assert not is_of(row, replace(CELL, size="paper"))
    assert not is_of(row, replace(CELL, settings={**CELL.settings, "count": 6}))


def test_what_has_a_row_with_its_seed_is_not_made_again(tmp_path: Path) -> None:
    asked = Asked(size="cpu", out=tmp_path)
    assert is_missing(CELL, 0, asked)
    append_row(tmp_path / "papers.jsonl", _row())
    assert not is_missing(CELL, 0, asked)
    assert is_missing(CELL, 1, asked)
    assert not is_missing(OTHER, 0, asked)
    assert not is_missing(CELL, 1, Asked(size="cpu", out=tmp_path, cells="b*"))
    assert read_rows((tmp_path / "papers.jsonl",)) == [_row()]


def test_a_trial_with_the_settings_of_a_cell_is_its_row() -> None:
    cell = next(cell for cell in table_named("baselines").cells("cpu") if cell.kind == "trained")
    settings = {"classifiers": ["logistic", "mlp", "cnn"], "calibrated": False, **cell.settings}
    trial = replace(cell, table=TRIAL, name="x", method="", settings=settings)
    own = adopted(_row(trial))
    assert is_of(own, cell)
    assert (own["cell"], own["method"], own["epsilon"]) == (cell.name, cell.method, 9.9)
    other = _row(replace(trial, settings={**settings, "count": 1}))
    assert adopted(other) == other


def test_a_section_has_own_and_published_numbers_and_says_what_is_missing() -> None:
    text = "\n".join(section(TABLE, [_row(), _row(seed=1, mlp=72.0)]))
    assert "| a, 2 seeds | 9.9000 | 10 | 71 ± 1.4 (80.5) | 3 |" in text
    assert "| b | not made |" in text
    assert "b: there are no such images" in text
    assert "Published, in parentheses: the text." in text


def test_a_line_of_the_plot_has_rows_and_points_along_the_way() -> None:
    best = _row(seed=1, mlp=75.0)
    lines = lines_of([_row(), best], "d", "mlp")
    assert lines == {"M": {9.9: 75.0, 4.0: 30.0}}
    assert lines_of([_row()], "other", "mlp") == {}
    axes = figure("d", {"mlp": lines}).axes[0]
    assert np.asarray(axes.get_lines()[0].get_xdata()).tolist() == [4.0, 9.9]


def test_the_page_shows_the_committed_rows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page_text(page) == page, "run python -m benchmarks.papers page"
    with pytest.raises(ValueError, match="no line"):
        page_text(page.replace(BEGIN, ""))


def test_a_folder_s_rows_are_kept_in_the_place_of_older_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, page = tmp_path / "papers.jsonl", tmp_path / "papers.md"
    page.write_text(f"# Papers\n\n{BEGIN}\n")
    monkeypatch.setattr("benchmarks.papers.rows.COMMITTED", committed)
    monkeypatch.setattr(command_line, "COMMITTED", committed)
    monkeypatch.setattr("benchmarks.papers.page.PAGE", page)
    for module in ("page", "plot"):
        monkeypatch.setattr(f"benchmarks.papers.{module}.IMAGES", tmp_path)
    monkeypatch.setattr(command_line, "IMAGES", tmp_path)
    cell = table_named("celeba").cells("cpu")[0]
    out = tmp_path / "out"
    for mlp in (40.0, 50.0):
        append_row(out / "papers.jsonl", _row(cell, mlp=mlp))
        (out / "grids").mkdir(exist_ok=True)
        (out / "grids" / "celeba-32-cpu-0-0123abcd.png").write_bytes(b"png")
        monkeypatch.setattr("sys.argv", ["papers", "keep", str(out)])
        assert command_line.main() == 0
        (row,) = read_rows((committed,))
        assert row["values"] == {"mlp": mlp}
        assert (tmp_path / "papers-celeba-32-cpu-0.png").read_bytes() == b"png"
        (out / "papers.jsonl").unlink()
    text = page.read_text()
    assert "| 32 x 32, DP-Sinkhorn | 9.9000 | 10 |  | 50 |" in text
    assert "](../images/papers-celeba-32-cpu-0.png)" in text


def test_committed_rows_are_whole() -> None:
    for row in read_rows():
        assert COMMITTED.name == "papers.jsonl"
        assert row["command"].startswith("python -m benchmarks.papers make ")
        assert "/" not in row["command"].replace(row["cell"], "")  # of nobody's machine
        assert row["seconds"] >= 0
        assert row["date"]
        assert row["processor"]
