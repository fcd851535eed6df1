"""Every table and figure of the papers is one command.

python -m benchmarks.papers                  what there is, what it takes, what is committed
python -m benchmarks.papers make NAME ...    make one, or go on; --size cpu or paper
python -m benchmarks.papers try RECIPE ...   make a row of any recipe, with changes
python -m benchmarks.papers table NAME       show its rows
python -m benchmarks.papers keep FOLDER      add a folder's rows to the committed ones; page, plot
python -m benchmarks.papers page             write the tables of docs/explanation/papers.md
python -m benchmarks.papers plot             draw accuracy by epsilon, one line a method
python -m benchmarks.papers explain SPEC     a published setting, as 'accountant explain' does

FOLDER of --data holds mnist.npz, fashion_mnist.npz and usps.npz with the arrays x_train, y_train,
x_test and y_test; digits, letters and pictures need none.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.papers.catalogue import SIZES, Table, table_named, tables
from benchmarks.papers.page import IMAGES, section, write_page
from benchmarks.papers.rows import (
    COMMITTED,
    NAME,
    TRIAL,
    adopted,
    append_row,
    is_of,
    read_rows,
)


def show_list(given: argparse.Namespace) -> int:
    """Print a line a table: paper, place, cells, minutes, and how many rows are committed."""
    rows, size = read_rows(), given.size
    for table in tables():
        cells = table.cells(size)
        made = [cell for cell in cells if any(is_of(row, cell) for row in rows)]
        left_out = sum(bool(cell.why_not) for cell in cells)
        minutes = sum(cell.seconds for cell in cells if not cell.why_not) / 60
        done = f"{len(made)} of {len(cells)} cells committed"
        done += f", {left_out} not made" if left_out else ""
        print(f"{table.name:28s} {table.paper}, {table.place}")
        print(f"{'':28s} {table.what}")
        print(f"{'':28s} {done}; about {minutes:.0f} minutes of one core at size {size}")
    return 0


def make_tables(given: argparse.Namespace) -> int:
    """Make tables, all of them for the name 'all'."""
    names = [table.name for table in tables()] if given.name == ["all"] else given.name
    return _made([table_named(name) for name in names], given)


def try_recipe(given: argparse.Namespace) -> int:
    """Make a row of a recipe in a table of its own, that is never committed."""
    changes = dict(map(_assignment, given.assignments))
    settings = {
        "kind": "trained",
        "recipe": given.recipe,
        "set": changes,
        "calibrated": given.calibrated,
        "epsilon": given.epsilon,
        "delta": given.delta,
        "count": given.count,
        "classifiers": given.classifiers,
    }
    name = "-".join([Path(given.recipe).stem, *(f"{k}={v}" for k, v in changes.items())])
    content = {"cell": [{"name": name, **settings}]}
    given.size, given.cells, given.parallel = "cpu", "*", 1
    table = Table(
        name=TRIAL, paper="", place="", what="", columns=tuple(given.classifiers), content=content
    )
    return _made([table], given)


def _made(chosen: list[Table], given: argparse.Namespace) -> int:
    from benchmarks.papers.make import Asked, make  # torch, and all kinds

    asked = Asked(
        size=given.size,
        out=given.out,
        seeds=given.seeds,
        cells=given.cells,
        data=given.data,
        minutes=given.minutes,
        device=given.device,
        curator_device=given.curator_device,
        parallel=given.parallel,
        measures_unfinished=given.measure_unfinished,
    )
    return make(chosen, asked)


def show_table(given: argparse.Namespace) -> int:
    """Print one table from rows."""
    files = (COMMITTED,) if given.out is None else (COMMITTED, given.out / NAME)
    print("\n".join(section(table_named(given.name), read_rows(files))))
    return 0


def keep(given: argparse.Namespace) -> int:
    """Add the rows of a folder to the committed ones, each in the place of an older one.

    A trial with the very settings of a cell is its row; other trials are not kept.
    """
    read = map(adopted, read_rows((given.folder / NAME,)))
    fresh = [row for row in read if row["table"] != TRIAL]
    names = {(row["table"], row["cell"], row["size"], row["seed"]) for row in fresh}
    kept = [
        row
        for row in read_rows()
        if (row["table"], row["cell"], row["size"], row["seed"]) not in names
    ]
    COMMITTED.unlink(missing_ok=True)
    for row in sorted([*kept, *fresh], key=lambda row: (row["table"], row["size"], row["seed"])):
        append_row(COMMITTED, row)
    for table in tables():
        if table.content.get("grids", False):
            _keep_grids(given.folder, table)
    draw(given)
    return make_page(given)


def _keep_grids(folder: Path, table: Table) -> None:
    for grid in sorted((folder / "grids").glob(f"{table.name}-*.png")):
        name = grid.stem.rpartition("-")[0]  # without the digest of the settings
        shutil.copy(grid, IMAGES / f"papers-{name}.png")


def make_page(given: argparse.Namespace) -> int:
    """Write the page's tables."""
    del given
    write_page()
    return 0


def draw(given: argparse.Namespace) -> int:
    """Draw the plots."""
    del given
    from benchmarks.papers.plot import write_plots  # matplotlib

    for path in write_plots():
        print(path)
    return 0


def explain(given: argparse.Namespace) -> int:
    """Print the chain to epsilon of a setting, and what is published of it."""
    from benchmarks.papers.accounting.settings import read_setting
    from benchmarks.papers.accounting.words import setting_lines

    spec = given.spec
    text = spec if spec.lstrip().startswith("{") else Path(spec).read_text(encoding="utf-8")
    described = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    names = ("epsilon", "delta", "num_steps", "nominal_size", "dimension", "capacity")
    try:
        setting = read_setting(described, {name: getattr(given, name) for name in names})
    except ValueError as problem:
        sys.exit(str(problem))
    print("\n".join(setting_lines(setting)))
    return 0


def _assignment(text: str) -> tuple[str, Any]:
    """Return key and value of KEY=VALUE."""
    from analyst.recipes.assignments import read_assignments

    ((key, value),) = read_assignments([text]).items()
    return key, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=show_list, size="cpu")
    commands = parser.add_subparsers(metavar="COMMAND")
    listed = commands.add_parser("list", help="what there is")
    listed.add_argument("--size", choices=SIZES, default="cpu")
    listed.set_defaults(run=show_list)
    made = commands.add_parser("make", help="make tables, or go on")
    made.add_argument("name", nargs="+", metavar="NAME", help="of the list, or 'all'")
    made.add_argument("--size", choices=SIZES, default="cpu")
    made.add_argument("--cells", default="*", metavar="PATTERN", help="names of cells [*]")
    _how(made, make_tables)
    tried = commands.add_parser("try", help="make a row of any recipe")
    tried.add_argument("recipe", metavar="NAME|FILE.toml")
    tried.add_argument("--set", dest="assignments", action="append", default=[], metavar="K=V")
    tried.add_argument("--calibrated", action="store_true", help="the least noise for the steps")
    tried.add_argument("--count", type=int, default=20000, help="synthetic images [20000]")
    tried.add_argument("--epsilon", type=float, default=10.0, help="budget [10]")
    tried.add_argument("--delta", type=float, default=1e-5, help="of the budget [1e-5]")
    tried.add_argument("--classifiers", nargs="*", default=["logistic", "mlp", "cnn"])
    _how(tried, try_recipe)
    shown = commands.add_parser("table", help="show rows")
    shown.add_argument("name", metavar="NAME")
    shown.add_argument("--out", type=Path, help="also the rows of this folder")
    shown.set_defaults(run=show_table)
    kept = commands.add_parser("keep", help="add rows to the committed ones")
    kept.add_argument("folder", type=Path, metavar="FOLDER")
    kept.set_defaults(run=keep)
    commands.add_parser("page", help="write the page").set_defaults(run=make_page)
    commands.add_parser("plot", help="draw").set_defaults(run=draw)
    explained = commands.add_parser("explain", help="a published setting")
    explained.add_argument("spec", help="a TOML or JSON file, or inline JSON")
    for name, kind in _OVERRIDES.items():
        explained.add_argument(f"--{name}", type=kind, dest=_DESTINATIONS.get(name))
    explained.set_defaults(run=explain)
    return parser


_OVERRIDES: Mapping[str, Callable[[str], float]] = {
    "epsilon": float,
    "delta": float,
    "steps": int,
    "nominal-size": int,
    "dimension": int,
    "capacity": int,
}
_DESTINATIONS = {"steps": "num_steps"}


def _how(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> None:
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="of the real data sets")
    parser.add_argument("--out", type=Path, default=Path("runs/papers"), metavar="FOLDER")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after these")
    parser.add_argument("--parallel", type=int, default=1, help="cells side by side [1]")
    parser.add_argument("--device", default="cpu", help="of generators and classifiers [cpu]")
    parser.add_argument("--curator-device", default="cpu", help="of curators [cpu]")
    parser.add_argument(
        "--measure-unfinished",
        action="store_true",
        help="when time is over, measure the newest checkpoint as it is",
    )
    parser.set_defaults(run=run)


def main() -> int:
    """Run a command."""
    given = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # stops its processes
    code: int = given.run(given)
    return code


if __name__ == "__main__":
    sys.exit(main())
