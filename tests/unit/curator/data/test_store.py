"""Stored images are checked byte by byte and readable by the owner only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from curator.data.errors import SourceError
from curator.data.images import LabelledImages, labelled_images
from curator.data.preflight import check_source
from curator.data.store import content_fingerprint, open_store, write_store
from tests.fakes.facts import small_facts


@pytest.fixture
def images() -> LabelledImages:
    levels = np.arange(5 * 2 * 2, dtype=np.uint8).reshape(5, 2, 2) % 16
    return labelled_images("test", levels, np.array([0, 1, 2, 1, 0]))


def test_round_trip(tmp_path: Path, images: LabelledImages) -> None:
    write_store(tmp_path / "set", images)
    again = open_store(tmp_path / "set")
    assert np.array_equal(again.levels.reshape(5, 4), images.levels.reshape(5, 4))
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


def test_the_fingerprint_ignores_order_and_needs_the_key(images: LabelledImages) -> None:
    turned = LabelledImages(levels=images.levels[::-1], labels=images.labels[::-1])
    other = LabelledImages(levels=images.levels, labels=images.labels[::-1] * 0)
    assert content_fingerprint(images, b"k") == content_fingerprint(turned, b"k")
    assert content_fingerprint(images, b"k") != content_fingerprint(images, b"l")
    assert content_fingerprint(images, b"k") != content_fingerprint(other, b"k")


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
