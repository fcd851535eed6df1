"""How good the images of a recipe or a chain are, at budgets and seeds, through a real curator.

python -m benchmarks.quality make RECIPE ...   make rows, or go on
python -m benchmarks.quality keep FOLDER       add a folder's rows to the committed ones
python -m benchmarks.quality page              write table and plots of docs/explanation/results.md

A row has the accuracy of the papers' classifiers and of a deep one that learned on the synthetic
images only. FOLDER of --data is that of benchmarks.papers; the digits need none. Unless --delta is
given, delta is 1 / (n ln n) of the data set's nominal size n, as the published numbers have it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shlex
import signal
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from analyst.chains.recipe import CHAINS, is_chain, load_chain, recipes_of, stage_book
from analyst.recipes.assignments import read_assignments
from analyst.recipes.books import book_of
from benchmarks.papers.catalogue import Table
from benchmarks.papers.data import read_data
from benchmarks.papers.make import Asked, make
from benchmarks.papers.page import IMAGES
from benchmarks.papers.rows import NAME, append_row, read_rows
from benchmarks.rows import ROOT

COMMITTED: Final = ROOT / "docs" / "results" / "quality.jsonl"
PAGE: Final = ROOT / "docs" / "explanation" / "results.md"
BEGIN: Final = "<!-- made by python -m benchmarks.quality page -->"
END: Final = "<!-- until here -->"
CLASSIFIERS: Final = ("logistic", "mlp", "cnn", "deep")
_SAME: Final = ("dataset", "recipe", "budget", "delta", "set", "recipe_digest")
_HEADS: Final = (
    *("data set, recipe", "budget", "epsilon by the ledger", "seeds"),
    *("logistic", "MLP", "CNN", "deep", "core seconds"),
)
_DPI: Final = 110

PUBLISHED: Final[Mapping[str, Mapping[str, Mapping[float, float]]]] = {
    "mnist": {
        "FETA-Pro (2026), best of three deep classifiers": {10.0: 98.6, 1.0: 97.3, 0.2: 86.2},
        "DPDM (2023), CNN": {10.0: 98.1, 1.0: 95.3},
        "DP-Sinkhorn (2021), CNN": {10.0: 83.2},
    },
    "fashion": {
        "FETA-Pro (2026), best of three deep classifiers": {10.0: 88.3, 1.0: 83.4, 0.2: 70.2},
        "DP-FETA, best of three deep classifiers": {0.2: 73.4},
    },
}
"""Accuracy in percent by data set, method and epsilon, as published; without public data."""


def make_rows(given: argparse.Namespace) -> int:
    """Make a row for each recipe, budget and seed that has none."""
    changes = read_assignments(given.assignments)
    cells = [
        _cell(recipe, budget, changes, given) for recipe in given.recipe for budget in given.budgets
    ]
    names = list(CLASSIFIERS)
    table = Table(
        name="quality", paper="", place="", what="", columns=tuple(names), content={"cell": cells}
    )
    asked = Asked(
        size="cpu",
        out=given.out,
        seeds=given.seeds,
        data=given.data,
        minutes=given.minutes,
        device=given.device,
        curator_device=given.curator_device,
        parallel=1,
    )
    return make([table], asked)


def _cell(
    recipe: str, budget: float, changes: Mapping[str, Any], given: argparse.Namespace
) -> dict[str, Any]:
    """Return a cell as the catalogue of the papers has one."""
    dataset, digest = _resolved(recipe, changes)
    delta = given.delta
    if delta is None:
        delta = delta_of(read_data(dataset, given.data, size=given.size).nominal_size)
    return {
        "name": f"{Path(recipe).stem} at {budget:g}" + (f", {digest}" if changes else ""),
        "kind": "quality",
        "recipe": recipe,
        "recipe_digest": digest,
        "set": dict(changes),
        "calibrated": True,
        "epsilon": budget,
        "delta": delta,
        "count": given.count,
        "classifiers": list(given.classifiers),
        "distances": False,
        "deep_epochs": given.deep_epochs,
        "deep_width": given.deep_width,
        **({} if given.size is None else {"size": given.size}),
    }


def _resolved(recipe: str, changes: Mapping[str, Any]) -> tuple[str, str]:
    """Return the data set, and a digest of what a recipe states: a changed one has other rows."""
    if is_chain(recipe):
        chain = load_chain(recipe, changes)
        recipes = recipes_of(chain).items()
        stages = {name: stage_book(one).stated(one) for name, one in recipes}
        table: Any = [CHAINS.stated(chain), stages]
        dataset = chain.training.dataset
    else:
        book = book_of(recipe)
        loaded = book.load(recipe, changes)
        table, dataset = book.stated(loaded), loaded.training.dataset
    return dataset, hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:12]


def delta_of(nominal_size: int) -> float:
    """Return 1 / (n ln n), rounded down to three digits."""
    exact = 1 / (nominal_size * math.log(nominal_size))
    unit: float = 10.0 ** (math.floor(math.log10(exact)) - 2)
    return float(f"{math.floor(exact / unit) * unit:.2e}")


def row_of(made: Mapping[str, Any]) -> dict[str, Any]:
    """Return a committed row of one that the papers' harness made."""
    settings, details = made["settings"], made["details"]
    row = {
        "dataset": details["data"],
        "recipe": Path(settings["recipe"]).stem,
        "set": settings["set"],
        "recipe_digest": settings["recipe_digest"],
        "budget": settings["epsilon"],
        "epsilon": made["epsilon"],
        "delta": settings["delta"],
        "seed": made["seed"],
        **{name: made["values"].get(name) for name in CLASSIFIERS},
        "deep_width": settings["deep_width"],
        "deep_epochs": settings["deep_epochs"],
        "deep_epsilon": details.get("deep_epsilon"),
        "count": details.get("count", settings["count"]),  # a chain has its own
        "seconds": made["seconds"],
        "core_seconds": made["core_seconds"],
    }
    return row | {
        "command": command_of(made),
        "date": made["date"],
        "processor": made["processor"],
    }


def command_of(made: Mapping[str, Any]) -> str:
    """Return the command that makes one row, with the same words on every machine."""
    settings = made["settings"]
    words = ["make", Path(settings["recipe"]).name, "--budgets", f"{settings['epsilon']:g}"]
    words += ["--delta", f"{settings['delta']:g}", "--seeds", str(made["seed"])]
    for key, value in settings["set"].items():
        words += ["--set", f"{key}={json.dumps(value)}"]
    words += ["--count", str(settings["count"])]
    words += ["--deep-epochs", str(settings["deep_epochs"])]
    words += ["--deep-width", str(settings["deep_width"]), "--data", "FOLDER", "--out", "FOLDER"]
    return f"python -m benchmarks.quality {shlex.join(words)}"


def keep(given: argparse.Namespace) -> int:
    """Add the rows of a folder to the committed ones, each in the place of an older one."""
    made = read_rows((given.folder / NAME,))
    fresh = [
        row_of(row) for row in made if row["table"] == "quality" and "size" not in row["settings"]
    ]
    old = [row for row in read_rows((COMMITTED,)) if _name(row) not in set(map(_name, fresh))]
    COMMITTED.unlink(missing_ok=True)
    for row in sorted([*old, *fresh], key=_name):
        append_row(COMMITTED, row)
    return make_page(given)


def _name(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a row is of; the recipe's text may have changed since."""
    keys = ("dataset", "recipe", "budget", "delta", "set", "seed")
    return tuple(json.dumps(row[key], sort_keys=True) for key in keys)


def make_page(given: argparse.Namespace) -> int:
    """Write the table, and a plot for each data set that has a row."""
    del given
    rows = read_rows((COMMITTED,))
    for path in sorted(IMAGES.glob("quality-*.png")):
        path.unlink()
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        write_plot(dataset, rows)
    PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return 0


def page_text(page: str, rows: list[dict[str, Any]]) -> str:
    """Return a page with its section made again; what is around the marks stays.

    Raises:
        ValueError: If a mark is missing.
    """
    above, begin, rest = page.partition(BEGIN)
    _, end, below = rest.partition(END)
    if not begin or not end:
        msg = f"the page has no lines {BEGIN} and {END}"
        raise ValueError(msg)
    return f"{above}{BEGIN}\n\n" + "\n".join(table_lines(rows)) + f"\n\n{END}{below}"


def _changed(row: Mapping[str, Any]) -> str:
    """Return what a row's recipe was given besides, as text."""
    return " ".join(f"{key}={json.dumps(value)}" for key, value in row["set"].items())


def table_lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table: medians over seeds, and a row for each published method."""
    if not rows:
        yield "No row is committed yet."
        return
    yield "| " + " | ".join(_HEADS) + " |"
    yield "|" + "-|" * len(_HEADS)
    for same in _grouped(rows):
        first = same[0]
        changed = _changed(first)
        what = f"{first['dataset']}, `{first['recipe']}`" + (f", `{changed}`" if changed else "")
        accuracies = [_median(row[name] for row in same) for name in CLASSIFIERS]
        spent = f"{max(row['epsilon'] for row in same):.4f}"
        cells = [what, f"{first['budget']:g}", spent, str(len(same)), *accuracies]
        yield "| " + " | ".join([*cells, _median((row["core_seconds"] for row in same), 0)]) + " |"
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        for method, points in PUBLISHED.get(dataset, {}).items():
            for epsilon, value in points.items():
                own = [f"{dataset}, {method}, published", f"{epsilon:g}", "", ""]
                place = (
                    ["", "", "", f"{value:g}"] if "deep" in method else ["", "", f"{value:g}", ""]
                )
                yield "| " + " | ".join([*own, *place, ""]) + " |"
    yield ""
    yield (
        "Medians over seeds. The deep classifier is chosen by noised counts of private records, "
        "which add at most a hundredth to the ledger's epsilon (`deep_epsilon` of a row)."
    )
    for path in sorted(IMAGES.glob("quality-*.png")):
        yield ""
        yield f"![accuracy against core seconds](../images/{path.name})"


def _grouped(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return rows that differ in their seeds only, side by side."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[json.dumps([row[key] for key in _SAME], sort_keys=True)].append(row)
    return list(groups.values())


def _median(values: Iterable[float | None], digits: int = 1) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.{digits}f}" if known else ""


def write_plot(dataset: str, rows: list[dict[str, Any]]) -> Path:
    """Draw accuracy against core seconds; published methods are lines: their cost is of cards."""
    path = IMAGES / f"quality-{dataset}.png"
    figure_of(dataset, rows).savefig(path, dpi=_DPI, metadata={"Software": None})
    return path


def figure_of(dataset: str, rows: list[dict[str, Any]]) -> Any:
    """Return a panel for each budget: the best of CNN and deep of each row, and the methods."""
    from matplotlib.figure import Figure

    mine = [row for row in rows if row["dataset"] == dataset]
    budgets = sorted({row["budget"] for row in mine}, reverse=True)
    made = Figure(figsize=(4.6 * len(budgets), 4.0), layout="constrained")
    for axes, budget in zip(made.subplots(1, len(budgets), squeeze=False)[0], budgets, strict=True):
        for same in _grouped([row for row in mine if row["budget"] == budget]):
            values = [max(row[name] or 0.0 for name in ("cnn", "deep")) for row in same]
            seconds = [row["core_seconds"] for row in same]
            axes.plot(seconds, values, "o", label=f"{same[0]['recipe']} {_changed(same[0])}")
        for method, points in PUBLISHED.get(dataset, {}).items():
            if budget in points:
                axes.axhline(points[budget], linestyle="--", linewidth=0.8, label=method)
        axes.set_xscale("log")
        axes.set_xlabel("core seconds, everything counted")
        axes.set_ylabel("accuracy on real images, %")
        axes.set_title(f"{dataset}, epsilon {budget:g}")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=6)
    return made


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    made = commands.add_parser("make", help="make rows, or go on")
    made.add_argument("recipe", nargs="+", metavar="NAME|FILE.toml", help="recipes and chains")
    made.add_argument("--set", dest="assignments", action="append", default=[], metavar="K=V")
    made.add_argument("--budgets", nargs="+", type=float, default=[10.0], help="epsilon [10]")
    made.add_argument("--delta", type=float, help="[1 / (n ln n)]")
    made.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    made.add_argument("--data", type=Path, metavar="FOLDER", help="of the real data sets")
    made.add_argument("--out", type=Path, default=Path("runs/quality"), metavar="FOLDER")
    made.add_argument("--count", type=int, default=20000, help="images of a recipe [20000]")
    made.add_argument("--classifiers", nargs="*", default=["logistic", "mlp", "cnn"])
    made.add_argument("--deep-width", type=int, default=16, help="64 is ResNet-18's [16]")
    made.add_argument("--deep-epochs", type=int, default=10, help="0 leaves it out [10]")
    made.add_argument("--size", type=int, help="first private images only; never kept")
    made.add_argument("--minutes", type=float, default=float("inf"), help="stop after these")
    made.add_argument("--device", default="cpu", help="of generators and classifiers [cpu]")
    made.add_argument("--curator-device", default="cpu", help="of curators [cpu]")
    made.set_defaults(run=make_rows)
    kept = commands.add_parser("keep", help="add rows to the committed ones")
    kept.add_argument("folder", type=Path, metavar="FOLDER")
    kept.set_defaults(run=keep)
    commands.add_parser("page", help="write table and plots").set_defaults(run=make_page)
    return parser


def main() -> int:
    """Run a command."""
    given = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # stops its processes
    code: int = given.run(given)
    return code


if __name__ == "__main__":
    sys.exit(main())
