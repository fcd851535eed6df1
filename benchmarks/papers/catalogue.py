"""The tables and figures of the papers, as data: one TOML file each in `tables/`.

A file says which paper, which table or figure and what it takes; its cells are a kind of work with
its settings, expected seconds, and the numbers that the paper prints. Adding one is adding a file.

    paper = "DP-Sinkhorn"            # a key of words.toml's [papers]
    place = "main table"
    what = "one sentence"
    columns = ["logistic", "mlp"]    # of `values` and `published`, in the order that is shown
    [common]                         # settings of all cells
    [size.cpu]                       # of all cells at that size; `differs` says what is scaled
    [[cell]]                         # its own settings; cell.cpu and cell.paper at that size only
    [[sweep]]                        # cells that differ in some keys: keys, values, name; some
                                     # are `paper_scale` times as large at the published size

What is not known for certain of a paper is left out of `published`, and `unknown` says why.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

Size = Literal["cpu", "paper"]
SIZES: tuple[Size, ...] = get_args(Size)
TABLES = Path(__file__).parent / "tables"
_OF_THE_CELL = frozenset(
    {
        *("name", "kind", "seconds", "published", "source", "unknown", "claimed", "why_not"),
        *("method", "differs", *SIZES),
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One number, or row of numbers, of a table at one size.

    `seconds` are expected of one core; `claimed` is the epsilon that the paper states; `why_not`
    says in a sentence why the cell is not made, and is empty if it is.
    """

    table: str
    paper: str
    place: str
    name: str
    kind: str
    size: Size
    settings: Mapping[str, Any]
    method: str = ""
    seconds: float = 0.0
    published: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    unknown: str = ""
    claimed: float | None = None
    why_not: str = ""
    differs: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One table or figure of a paper."""

    name: str
    paper: str
    place: str
    what: str
    columns: tuple[str, ...]
    content: Mapping[str, Any]

    def cells(self, size: Size) -> tuple[Cell, ...]:
        """Return the cells at a size."""
        return tuple(_cell(self, one, size) for one in _listed(self.content))


@cache
def tables() -> tuple[Table, ...]:
    """Return all of them, in the order of their names."""
    return tuple(_table(path) for path in sorted(TABLES.glob("*.toml")))


def table_named(name: str) -> Table:
    """Return one of them.

    Raises:
        SystemExit: If there is none of this name.
    """
    for table in tables():
        if table.name == name:
            return table
    message = f"no table or figure is called '{name}': run python -m benchmarks.papers"
    raise SystemExit(message)


def _table(path: Path) -> Table:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return Table(
        name=path.stem,
        paper=content["paper"],
        place=content["place"],
        what=content["what"],
        columns=tuple(content["columns"]),
        content=content,
    )


def _listed(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the cells as written, those of sweeps too."""
    yield from content.get("cell", ())
    for sweep in content.get("sweep", ()):
        rest = {key: sweep[key] for key in sweep.keys() - {"keys", "values", "name"}}
        scale = rest.pop("paper_scale", {})
        for values in sweep["values"]:
            changed = dict(zip(sweep["keys"], values, strict=True))
            larger = {key: type(changed[key])(changed[key] * by) for key, by in scale.items()}
            name = sweep["name"].format(*values)
            yield {
                **rest,
                "name": name,
                "set": {**rest.get("set", {}), **changed},
                **({"paper": {"set": larger}} if larger else {}),
            }


def _cell(table: Table, own: Mapping[str, Any], size: Size) -> Cell:
    """Lay what is said of all cells, of the size, of the cell and of both over each other."""
    merged: dict[str, Any] = {}
    content = table.content
    for layer in (
        content.get("common", {}),
        content.get("size", {}).get(size, {}),
        own,
        own.get(size, {}),
    ):
        changes = {**merged.get("set", {}), **layer.get("set", {})}
        merged = {**merged, **layer, **({"set": changes} if changes else {})}
    known = {key: merged[key] for key in _OF_THE_CELL & merged.keys() - set(SIZES)}
    settings = {key: value for key, value in merged.items() if key not in _OF_THE_CELL}
    known |= {"table": table.name, "paper": table.paper, "place": table.place}
    return Cell(**known, size=size, settings=settings)
