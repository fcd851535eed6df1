"""The tables of docs/explanation/papers.md, made of the committed rows and of nothing else."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from analyst.evaluation.choices import SUITE_CLASSIFIERS
from benchmarks.papers.catalogue import SIZES, Cell, Table, tables
from benchmarks.papers.rows import is_of, read_rows
from benchmarks.rows import ROOT

IMAGES: Final = ROOT / "docs" / "images"
PAGE: Final = ROOT / "docs" / "explanation" / "papers.md"
BEGIN: Final = "<!-- made by python -m benchmarks.papers page -->"
_HEADINGS: Final = {
    "fid": "FID",
    "inception_score": "IS",
    "logistic": "logistic",
    "mlp": "MLP",
    "cnn": "CNN",
}
_DIGITS: Final = 4


def write_page() -> None:
    """Put the tables of the committed rows in the place of the page's old ones."""
    PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def page_text(page: str) -> str:
    """Return a page with its tables made again; what is above the mark stays.

    Raises:
        ValueError: If there is no mark.
    """
    above, mark, _ = page.partition(BEGIN)
    if not mark:
        msg = f"the page has no line {BEGIN}"
        raise ValueError(msg)
    rows = read_rows()
    plots = sorted(IMAGES.glob("papers-plot-*.png"))
    drawn = [f"![accuracy by epsilon](../images/{plot.name})\n" for plot in plots]
    sections = ("\n".join(section(table, rows)) for table in tables())
    return f"{above}{BEGIN}\n\n" + "\n".join([*drawn, *sections])


def section(table: Table, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table: each value, and what is published of it in parentheses."""
    rows = list(rows)
    yield f"## {table.name}"
    yield ""
    yield f"{table.paper}, {table.place}. {table.what}"
    for size in SIZES:
        differs = table.content.get("size", {}).get(size, {}).get("differs", "")
        if size == "cpu" and differs:
            yield f"At CPU size: {differs}"
    yield ""
    headings = [_HEADINGS.get(column, column.replace("_", " ")) for column in table.columns]
    yield "| " + " | ".join(["cell", "epsilon", "claimed", *headings, "core seconds"]) + " |"
    yield "|" + "-|" * (len(headings) + 4)
    sizes = [one for one in SIZES if one == "cpu" or any(_has_row(table, one, rows))]
    cells = [cell for size in sizes for cell in table.cells(size)]
    by_cell = {
        (cell.name, cell.size): [row for row in rows if is_of(dict(row), cell)] for cell in cells
    }
    for cell in cells:
        real = by_cell.get((table.content.get("calibrated_by", ""), cell.size), [])
        own = [_calibrated(row, real) for row in by_cell[cell.name, cell.size]]
        yield _line(cell, table.columns, own)
    yield ""
    yield from _notes(table, cells, rows)


def _calibrated(row: Mapping[str, Any], real: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return a row with the mean of its accuracies over those on real images, if they are known."""
    if not real:
        return row
    parts = [
        value / real[0]["values"][name]
        for name, value in row["values"].items()
        if name in SUITE_CLASSIFIERS
    ]
    return {**row, "values": {**row["values"], "calibrated": 100 * statistics.mean(parts)}}


def _has_row(table: Table, size: Any, rows: Iterable[Mapping[str, Any]]) -> Iterator[bool]:
    cells = table.cells(size)
    return (is_of(dict(row), cell) for row in rows for cell in cells)


def _line(cell: Cell, columns: Iterable[str], rows: list[Mapping[str, Any]]) -> str:
    name = cell.name if cell.size == "cpu" else f"{cell.name}, {cell.size} size"
    if len(rows) > 1:
        name += f", {len(rows)} seeds"
    values = [_value(column, cell, rows) for column in columns]
    took = [row["core_seconds"] for row in rows if row.get("core_seconds")]
    seconds = f"{statistics.mean(took):.0f}" if took else ""
    claimed = "" if cell.claimed is None else f"{cell.claimed:g}"
    return "| " + " | ".join([name, _epsilon(cell, rows), claimed, *values, seconds]) + " |"


def _epsilon(cell: Cell, rows: list[Mapping[str, Any]]) -> str:
    """Return what was charged; of what was not served, what it costs in words."""
    if not rows:
        return "not made" if cell.why_not else "to be made"
    charged = [row["epsilon"] for row in rows if row["epsilon"] is not None]
    return f"{max(charged):.4f}" if charged else str(rows[0]["true_epsilon"])


def _value(column: str, cell: Cell, rows: list[Mapping[str, Any]]) -> str:
    """Return the mean over seeds, and the published number in parentheses."""
    known = [row["values"].get(column) for row in rows]
    own = _mean([value for value in known if value is not None])
    printed = f"({cell.published[column]:g})" if column in cell.published else ""
    return f"{own} {printed}".strip()


def _mean(values: list[float]) -> str:
    """Return a mean in four digits, and the spread of seeds if there are several."""
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.2g}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{_DIGITS}g}{spread}"


def _notes(table: Table, cells: Iterable[Cell], rows: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield sources of published numbers, what is not known or not made, how and when it was."""
    cells = list(cells)
    sources = dict.fromkeys(cell.source for cell in cells if cell.source)
    unknown = dict.fromkeys(cell.unknown for cell in cells if cell.unknown)
    reasons = dict.fromkeys(f"{cell.name}: {cell.why_not}" for cell in cells if cell.why_not)
    mine = [row for row in rows if row["table"] == table.name]
    made = dict.fromkeys(f"{row['date']} on {row['processor']}" for row in mine)
    for what, said in (
        ("Published, in parentheses", sources),
        ("Not known", unknown),
        ("Not made", reasons),
        ("Made", made),
    ):
        if said:
            yield f"{what}: {'; '.join(said)}."
    yield f"Command: `python -m benchmarks.papers make {table.name} --data FOLDER --out FOLDER`."
    yield ""
    for picture in sorted(IMAGES.glob(f"papers-{table.name}-*.png")):
        words = picture.stem.removeprefix("papers-").replace("-", " ")
        yield f"![{words}](../images/{picture.name})"
        yield ""
