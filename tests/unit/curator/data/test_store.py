"""Stored images are checked byte by byte and readable by the owner only."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from curator.data.errors import SourceError
from curator.data.groups import limit_groups
from curator.data.images import LabelledImages, labelled_images
from curator.data.store import open_store, write_store
from curator.sources.preflight import check_source
from tests.fakes.facts import small_facts


@pytest.fixture
def images() -> LabelledImages:
    levels = np.arange(5 * 2 * 2, dtype=np.uint8).reshape(5, 2, 2) % 16
    return labelled_images("test", levels, np.array([0, 1, 2, 1, 0]))


def test_round_trip(tmp_path: Path, images: LabelledImages) -> None:
    write_store(tmp_path / "set", images)
    again = open_store(tmp_path / "set")
    assert np.array_equal(again.levels[np.arange(5)], images.levels.reshape(5, 4))
    assert np.array_equal(again.labels, images.labels)


def test_only_the_owner_can_read(tmp_path: Path, images: LabelledImages) -> None:
    write_store(tmp_path / "set", images)
    for path in [tmp_path / "set", *(tmp_path / "set").iterdir()]:
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["levels.npy", "labels.npy"])
def test_one_changed_byte_is_noticed(tmp_path: Path, images: LabelledImages, name: str) -> None:
    write_store(tmp_path / "set", images)
    path = tmp_path / "set" / name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match="checksums"):
        open_store(tmp_path / "set")


@pytest.fixture
def people(images: LabelledImages) -> LabelledImages:
    """The same images of three people: two, two and one."""
    return LabelledImages(
        levels=images.levels, labels=images.labels, groups=np.array([2, 0, 2, 1, 0])
    )


def test_of_each_group_the_first_records_are_kept_side_by_side(people: LabelledImages) -> None:
    both = limit_groups(people, 2)
    assert both.groups is not None
    assert both.groups.tolist() == [0, 0, 1, 2, 2]
    assert both.levels[:, 0, 0, 0].tolist() == people.levels[[1, 4, 3, 0, 2], 0, 0, 0].tolist()
    one = limit_groups(people, 1)
    assert one.groups is not None
    assert one.groups.tolist() == [0, 1, 2]
    assert one.labels.tolist() == people.labels[[1, 3, 0]].tolist()
    assert one.max_per_group == 1
    for wrong in (LabelledImages(levels=people.levels, labels=people.labels), people):
        with pytest.raises(ValueError, match="groups"):
            limit_groups(wrong, 0 if wrong is people else 1)


def test_groups_round_trip_and_are_checked(tmp_path: Path, people: LabelledImages) -> None:
    kept = limit_groups(people, 2)
    write_store(tmp_path / "set", kept)
    again = open_store(tmp_path / "set")
    assert again.groups is not None
    assert kept.groups is not None
    assert np.array_equal(again.groups, kept.groups)
    assert again.max_per_group == 2
    path = tmp_path / "set" / "groups.npy"
    assert path.stat().st_mode & 0o077 == 0
    assert len(np.load(path).tobytes()) == 5  # one byte each
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match="checksums"):
        open_store(tmp_path / "set")
    path.unlink()
    with pytest.raises(SourceError, match="incomplete"):
        open_store(tmp_path / "set")


def test_a_grouped_store_has_a_version_of_its_own(tmp_path: Path, people: LabelledImages) -> None:
    """So that a curator that knows nothing of groups does not protect single records instead."""
    write_store(tmp_path / "set", limit_groups(people, 2))
    manifest = json.loads((tmp_path / "set" / "manifest.json").read_bytes())
    assert manifest["version"] == 2
    (tmp_path / "set" / "manifest.json").write_text(json.dumps(manifest | {"version": 3}))
    with pytest.raises(SourceError, match="differ"):
        open_store(tmp_path / "set")


def test_the_preflight_counts_groups(people: LabelledImages, images: LabelledImages) -> None:
    facts = small_facts(unit="group", max_records_per_group=1, nominal_size=3, max_size=3)
    lines = check_source(people, facts)
    assert "5 images in 3 groups" in lines[0]
    assert "2 images" in lines[1]
    assert lines[2] == "left out: 2 images"
    too_small = small_facts(unit="group", max_records_per_group=1, nominal_size=2, max_size=2)
    with pytest.raises(SourceError, match="3 groups, declared are at most 2"):
        check_source(people, too_small)
    for source, declared in ((images, facts), (people, small_facts())):
        with pytest.raises(SourceError, match="groups-key"):
            check_source(source, declared)


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "group"},
        {"max_records_per_group": 2},
        {"unit": "group", "max_records_per_group": 0},
        {"unit": "group", "max_records_per_group": 9},
    ],
)
def test_facts_that_do_not_fit_the_unit(change: dict[str, object]) -> None:
    assert str(small_facts().adjacency) == "add-or-remove-one-record"
    group = small_facts(unit="group", max_records_per_group=8)
    assert str(group.adjacency) == "add-or-remove-one-group"
    with pytest.raises(ValueError, match=r"max.records.per.group"):
        small_facts(**change)


@pytest.mark.parametrize("name", ["levels.npy", "labels.npy", "manifest.json"])
def test_a_missing_file_is_noticed(tmp_path: Path, images: LabelledImages, name: str) -> None:
    write_store(tmp_path / "set", images)
    (tmp_path / "set" / name).unlink()
    with pytest.raises(SourceError, match="incomplete"):
        open_store(tmp_path / "set")


def test_a_store_is_never_overwritten(tmp_path: Path, images: LabelledImages) -> None:
    write_store(tmp_path / "set", images)
    with pytest.raises(SourceError, match="exists"):
        write_store(tmp_path / "set", images)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"height": 4, "width": 1}, "shape"),
        ({"max_level": 14}, "level 15"),
        ({"classes": ("a", "b")}, "labels run from 0 to 2"),
        ({"max_size": 4, "nominal_size": 4}, "at most 4"),
    ],
)
def test_a_source_that_does_not_fit_the_declaration(
    images: LabelledImages, change: dict[str, object], words: str
) -> None:
    assert "5 images" in check_source(images, small_facts())[0]
    with pytest.raises(SourceError, match=words):
        check_source(images, small_facts(**change))
