"""What docs/how-to/bring-your-data.md says of every awkward kind is what happens."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import IO, Any

import pytest

from curator.cli.reading import Reading
from curator.data.errors import SourceError
from curator.sources.ingest import ingest_source, survey_source
from curator.sources.options import SourceOptions, no_progress
from curator.sources.preflight import report_lines
from curator.sources.survey import Survey
from tests.commands import understood
from tests.fakes.awkward import KINDS, Awkward, write_intact

PAGE = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "bring-your-data.md"


@dataclass(frozen=True)
class Row:
    kind: str
    outcome: str
    words: str
    options: str


def table() -> list[Row]:
    lines = PAGE.read_text().split("## Every awkward kind")[1].splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    return [
        Row(kind, outcome, words, option.strip("`"))
        for kind, outcome, words, option, _ in cells[2:]
    ]


ROWS = table()


def options(text: str) -> SourceOptions:
    """Read options as the command line does."""
    given = understood(["dataset", "check", "SOURCE", *shlex.split(text)], "curator").params
    reading = Reading(**{one.name: given[one.name] for one in fields(Reading)})
    return reading.options("cat,dog,caf\u00e9", "1x8x8", given["max_level"])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if os.geteuid() == 0:  # permissions do not hold for root
        opened = Path.open

        def open_if_readable(path: Path, mode: str = "r", **options: Any) -> IO[Any]:
            if "r" in mode and path.stat().st_mode & 0o400 == 0:
                raise PermissionError(13, "Permission denied")
            return opened(path, mode, **options)

        monkeypatch.setattr(Path, "open", open_if_readable)
    folder = tmp_path / "photos"
    write_intact(folder)
    return folder


def surveyed(root: Path, awkward: Awkward, text: str) -> tuple[Survey, SourceOptions]:
    chosen = options(text)
    if awkward.table is not None:
        path = root.with_name("labels.csv")
        path.write_text(awkward.table)
        chosen = replace(chosen, labels=path)
    return survey_source(str(root), chosen, no_progress), chosen


def test_the_table_and_the_fixture_name_the_same_kinds() -> None:
    assert {row.kind for row in ROWS} == set(KINDS)
    assert len(ROWS) == len(KINDS) >= 50


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.kind)
def test_what_the_table_says_happens(root: Path, tmp_path: Path, row: Row) -> None:
    awkward = KINDS[row.kind](root)
    survey, chosen = surveyed(root, awkward, "")
    lines = list(report_lines(survey))
    refused, left_out = dict(survey.refusals), dict(survey.left_out)
    assert any(row.words in line for line in lines), lines
    if row.outcome == "refused":
        assert list(refused) == [awkward.name]
        assert row.words in refused[awkward.name]
        assert re.search(
            r": (add|save|replace|remove|restore|rename|merge|fill|correct|copy|move|make)|: '",
            refused[awkward.name],
        )
        with pytest.raises(SourceError, match=re.escape(row.words)) as caught:
            ingest_source(str(root), chosen, tmp_path, no_progress)
        assert f"{awkward.name}: " in str(caught.value)
        return
    assert not refused
    assert survey.images == awkward.images
    images, _ = ingest_source(str(root), chosen, tmp_path, no_progress)
    assert images.levels.shape == (awkward.images, 1, 8, 8)
    if row.outcome == "left out":
        assert row.words in left_out[awkward.name]
        return
    assert row.outcome == "taken"
    assert awkward.name not in left_out


@pytest.mark.parametrize("row", [row for row in ROWS if row.options], ids=lambda row: row.kind)
def test_the_option_takes_it(root: Path, tmp_path: Path, row: Row) -> None:
    awkward = KINDS[row.kind](root)
    survey, chosen = surveyed(root, awkward, row.options)
    assert survey.refusals == []
    taken = 1 if "skip" in row.options else awkward.images
    images, again = ingest_source(str(root), chosen, tmp_path, no_progress)
    assert images.levels.shape == (taken, 1, 8, 8)
    assert images.labels.tolist() == [0, 1][:taken]
    assert again.as_json() == survey.as_json()
    told = sum(survey.conversions.values()) + len(survey.left_out)
    assert told >= 1


@pytest.mark.parametrize("row", [row for row in ROWS if row.options], ids=lambda row: row.kind)
def test_each_option_is_needed(root: Path, row: Row) -> None:
    awkward = KINDS[row.kind](root)
    pairs = re.findall(r"--\S+ \S+", row.options)
    for left_out in pairs:
        rest = " ".join(pair for pair in pairs if pair != left_out)
        survey, _ = surveyed(root, awkward, rest)
        assert [name for name, _ in survey.refusals] == [awkward.name]
        assert left_out.split()[0] in survey.refusals[0][1]
