"""One person has one name: what only looks different is refused, in tables and in arrays."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pytest

from curator.data.errors import SourceError
from curator.data.group_names import EMPTY, GroupNames
from curator.data.images import LabelledImages, labelled_images
from curator.sources.ingest import survey_source
from curator.sources.options import SourceOptions, no_progress
from curator.sources.preflight import report_lines

SAME = (
    *("P1 ", " P1", "P 1", "P1\t", "P1\n", "P\u00a01", "P1\u2003", "P1\u200b", "P\u200d1"),
    *("\ufeffP1", "P1\u00ad", "\uff301", "P\u00b9", "P1\ufe0f", "P1\u034f", "P1\u3164", "\x00P1"),
)


def told(*values: str) -> list[str | None]:
    names = GroupNames()
    return [names.problem(value, f"row {number}") for number, value in enumerate(values, 1)]


@pytest.mark.parametrize("value", SAME, ids=ascii)
def test_what_only_looks_different_is_refused_with_both_rows(value: str) -> None:
    first, second = told("P1", value)
    assert first is None
    assert second is not None
    assert "row 1" in second
    mine, other = second.split("'")[1:4:2]
    assert mine != other
    assert mine.isprintable()
    assert other == "P1"


def test_forms_of_an_accent_are_shown_apart() -> None:
    composed, apart = "Jos\u00e9", unicodedata.normalize("NFD", "Jos\u00e9")
    for pair in ((composed, apart), (apart, composed)):
        _, why = told(*pair)
        assert why is not None
        assert r"'Jos\xe9'" in why
        assert r"'Jose\u0301'" in why


@pytest.mark.parametrize("value", ["", " ", "\t\n", "\u200b", "\u3164"], ids=ascii)
def test_nothing_is_no_name(value: str) -> None:
    assert told(value) == [EMPTY]


def test_other_names_are_others_and_the_same_is_the_same() -> None:
    assert told("P1", "P2", "P1", "p1", "12", "1", "2", "Jos\u00e9", "Jose") == [None] * 9


def test_case_is_told() -> None:
    names = GroupNames()
    for number, value in enumerate(("P1", "p1", "P2", "STRASSE", "Stra\u00dfe"), 1):
        assert names.problem(value, f"row {number}") is None
    pairs = list(names.alike())
    assert [pair[0] for pair in pairs] == ["'p1' of row 2", "'Stra\u00dfe' of row 5"]
    assert pairs[0][1].startswith("'P1' of row 1")


def arrays(groups: np.ndarray) -> LabelledImages:
    count = len(groups)
    return labelled_images("a.npz", np.zeros((count, 2, 2), np.uint8), np.zeros(count, int), groups)


@pytest.mark.parametrize("kind", ["U", "S"])
def test_arrays_are_checked_too(kind: str) -> None:
    with pytest.raises(SourceError, match="image 2: the group 'P1 ' differs from 'P1' of image 0"):
        arrays(np.array(["P1", "P2", "P1 "]).astype(kind))
    with pytest.raises(SourceError, match="image 1: the group is empty"):
        arrays(np.array(["P1", "", "P2"]).astype(kind))
    images = arrays(np.array(["P1", "p1", "P1"]).astype(kind))
    assert [pair[0] for pair in images.alike_groups] == ["'p1' of image 1"]
    assert images.groups is not None
    assert images.groups.tolist() == [0, 1, 0]


def test_a_refusal_of_arrays_names_some_and_counts_the_rest() -> None:
    many = np.array([f"P{k:03}{blank}" for k in range(30) for blank in ("", " ")])
    with pytest.raises(SourceError, match=r"image 1: .*; and 10 more"):
        arrays(many)


def test_whole_numbers_are_names_as_they_are() -> None:
    assert arrays(np.array([0, 3, -1])).alike_groups == ()


def test_the_report_names_groups_of_arrays_that_differ_in_case(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    shape = np.zeros((2, 2, 2), np.uint8)
    np.savez(path, images=shape, labels=np.zeros(2, int), who=np.array(["P1", "p1"]))
    survey = survey_source(str(path), SourceOptions(groups_key="who"), no_progress)
    assert any("'p1' of image 1: 'P1' of image 0" in line for line in report_lines(survey))
    assert survey.as_json()["groups"]["alike_but_for_case"]  # type: ignore[index]
