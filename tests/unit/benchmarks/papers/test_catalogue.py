"""The catalogue: layers of settings, sweeps, and that every cell can be begun."""

from __future__ import annotations

import pytest

from analyst.recipes import load_recipe
from benchmarks.papers.catalogue import SIZES, Cell, Table, table_named, tables
from benchmarks.papers.data import NAMES
from benchmarks.papers.make import KINDS, file_name

_NO_RECIPE = {"bounds", "claim", "real", "adaptation"}
ALL = [(cell, size) for table in tables() for size in SIZES for cell in table.cells(size)]


def _table(**content: object) -> Table:
    content = {"paper": "P", "place": "here", "what": "It.", "columns": ["mlp"], **content}
    return Table(name="t", paper="P", place="here", what="It.", columns=("mlp",), content=content)


def test_what_is_nearer_wins_and_changes_are_merged() -> None:
    table = _table(
        common={"kind": "trained", "count": 9, "set": {"a": 1, "b": 1}},
        size={"cpu": {"set": {"b": 2}}},
        cell=[{"name": "x", "set": {"c": 3}, "paper": {"count": 60}, "cpu": {"set": {"a": 4}}}],
    )
    (small,) = table.cells("cpu")
    assert small.settings == {"count": 9, "set": {"a": 4, "b": 2, "c": 3}}
    (large,) = table.cells("paper")
    assert large.settings == {"count": 60, "set": {"a": 1, "b": 1, "c": 3}}


def test_a_sweep_is_a_cell_for_each_pair_of_values() -> None:
    sweep = {"name": "m = {0}, p = {1}", "keys": ["m", "p"], "values": [[1, 2], [3, 4]]}
    table = _table(common={"kind": "trained", "set": {"q": 0}}, sweep=[sweep])
    first, second = table.cells("cpu")
    assert (first.name, first.settings["set"]) == ("m = 1, p = 2", {"q": 0, "m": 1, "p": 2})
    assert second.settings["set"]["m"] == 3
    scaled = _table(common={"kind": "trained"}, sweep=[{**sweep, "paper_scale": {"p": 2.5}}])
    assert scaled.cells("paper")[1].settings["set"] == {"m": 3, "p": 10}
    assert scaled.cells("cpu")[1].settings["set"] == {"m": 3, "p": 4}


@pytest.mark.parametrize("table", tables(), ids=lambda table: table.name)
def test_tables_say_what_they_are(table: Table) -> None:
    for size in SIZES:
        cells = table.cells(size)
        assert len({cell.name for cell in cells}) == len(cells)
        assert len({file_name(cell, 0) for cell in cells}) == len(cells)
        for cell in cells:
            assert cell.published.keys() <= set(table.columns)
            assert cell.kind in KINDS
    assert any(cell.source for cell in table.cells("cpu")) or not any(
        cell.published for cell in table.cells("cpu")
    )


@pytest.mark.parametrize(("cell", "size"), ALL, ids=lambda one: getattr(one, "name", one))
def test_every_cell_has_what_it_takes(cell: Cell, size: str) -> None:
    if cell.why_not:
        assert cell.why_not.strip().count(". ") == 0  # one sentence
        return
    assert cell.seconds > 0
    if cell.kind in _NO_RECIPE:
        return
    recipe = load_recipe(cell.settings["recipe"], dict(cell.settings.get("set", {})))
    assert recipe.training.dataset in NAMES
    assert cell.settings["count"] > 0


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(SystemExit, match="'nothing'"):
        table_named("nothing")
