"""Levels of two bytes: what is stored is what is read, and the declaration decides how."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from curator.administration.add_dataset import add_dataset
from curator.administration.open_ledger import open_ledger
from curator.config import load_config
from curator.data.errors import SourceError
from curator.data.images import LabelledImages, labelled_images
from curator.data.levels import level_type
from curator.data.overlap import image_hashes
from curator.data.sampling import PrivateRecords
from curator.data.store import open_store, write_store
from curator.folder import initialise
from curator.privacy.event_numbers import SamplingRate
from tests.fakes.facts import small_facts
from tests.fakes.noise import NoNoise, SeededNoise

ALL = SamplingRate(1 << 64)
KEY = b"k" * 32


def deep(count: int = 9, white: int = 65_535) -> LabelledImages:
    levels = np.random.default_rng(1).integers(0, white + 1, (count, 1, 2, 3), dtype=np.uint16)
    levels[0], levels[-1] = white, 0
    return LabelledImages(levels=levels, labels=np.arange(count) % 3)


@pytest.mark.parametrize("white", [4095, 65_535])
def test_a_round_trip_is_exact(tmp_path: Path, white: int) -> None:
    images = deep(white=white)
    write_store(tmp_path / "set", images)
    stored = open_store(tmp_path / "set")
    assert stored.levels.dtype == np.uint16
    assert np.array_equal(stored.levels[np.arange(9)], images.levels.reshape(9, 6))
    assert np.array_equal(stored.levels[3:7], images.levels.reshape(9, 6)[3:7])
    private = PrivateRecords(stored, 12)
    drawn = private.poisson_batch(ALL, 12, SeededNoise(1)).unseal()
    assert drawn.levels_MD.dtype == torch.int32
    found = {tuple(row) for row in drawn.levels_MD[drawn.mask_M].tolist()}
    assert found == {tuple(row) for row in images.levels.reshape(9, 6).tolist()}
    (passed,) = (one.unseal() for one in private.batches(12))
    assert passed.levels_MD[:9].tolist() == images.levels.reshape(9, 6).tolist()
    assert not passed.levels_MD[9:].any()


def test_a_cut_file_of_two_bytes_is_noticed(tmp_path: Path) -> None:
    write_store(tmp_path / "set", deep())
    private = PrivateRecords(open_store(tmp_path / "set"), 12)
    path = tmp_path / "set" / "levels.npy"
    path.write_bytes(path.read_bytes()[:-1])
    drawn = private.poisson_batch(ALL, 12, NoNoise()).unseal()
    assert not drawn.mask_M.any()
    assert drawn.levels_MD.dtype == torch.int32
    with pytest.raises(SourceError, match="incomplete"):
        open_store(tmp_path / "set")


@pytest.mark.parametrize("kind", [np.int16, np.float32, np.int32])
def test_a_file_of_another_type_is_refused(tmp_path: Path, kind: type[np.generic]) -> None:
    write_store(tmp_path / "set", deep())
    np.save(tmp_path / "set" / "levels.npy", np.zeros((9, 6), dtype=kind))
    with pytest.raises(SourceError, match="incomplete"):
        open_store(tmp_path / "set")


def test_a_set_without_records_has_rows_as_deep() -> None:
    none = LabelledImages(levels=deep().levels[:0], labels=np.zeros(0, dtype=np.int64))
    drawn = PrivateRecords(none, 4).poisson_batch(ALL, 4, NoNoise())
    assert drawn.unseal().levels_MD.dtype == torch.int32


def test_a_copy_is_noticed_however_deep_it_is_stored() -> None:
    shallow = (deep().levels % 256).astype(np.uint8)
    assert np.array_equal(image_hashes(shallow, KEY), image_hashes(shallow.astype(np.uint16), KEY))
    assert not np.isin(image_hashes(deep().levels, KEY), image_hashes(shallow, KEY))[1:-1].any()


@pytest.mark.parametrize(("white", "kind"), [(255, np.uint8), (256, np.uint16), (4095, np.uint16)])
def test_the_declared_white_decides_what_is_stored(
    tmp_path: Path, white: int, kind: type[np.generic]
) -> None:
    """Images with the same levels, below 200, are stored in one byte or two by what is declared."""
    levels = (deep().levels % 200).astype(np.uint16)
    np.savez(tmp_path / "some.npz", images=levels, labels=deep().labels)
    folder = initialise(tmp_path / "curator")
    facts = small_facts(height=2, width=3, max_level=white)
    add_dataset(folder, facts, str(tmp_path / "some.npz"))
    stored = open_store(folder.images(facts.name)).levels
    assert stored.dtype == kind == level_type(white)
    assert np.array_equal(stored[np.arange(9)], levels.reshape(9, 6))


def test_levels_above_the_declared_white_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "some.npz", images=deep().levels, labels=deep().labels)
    folder = initialise(tmp_path / "curator")
    with pytest.raises(SourceError, match="a pixel has level 65535, declared is at most 4095"):
        add_dataset(
            folder, small_facts(height=2, width=3, max_level=4095), str(tmp_path / "some.npz")
        )
    with pytest.raises(SourceError, match="from 0 to 255, or 65,535 with --max-level"):
        labelled_images("some", np.full((2, 3, 3), 65_536), np.zeros(2, dtype=np.int64))


def test_a_store_of_another_depth_than_the_ledger_says_is_out_of_service(tmp_path: Path) -> None:
    from curator.process.load_datasets import load_dataset, load_datasets

    np.savez(tmp_path / "some.npz", images=deep().levels, labels=deep().labels)
    folder = initialise(tmp_path / "curator")
    facts = small_facts(height=2, width=3, max_level=65_535)
    add_dataset(folder, facts, str(tmp_path / "some.npz"))
    ledger = open_ledger(folder, load_config(folder.config))
    try:
        loaded = load_dataset(folder, ledger, facts.name)
        assert loaded is not None
        assert loaded.records is not None
        path = folder.images(facts.name)
        (path / "levels.npy").unlink()
        (path / "labels.npy").unlink()
        (path / "manifest.json").unlink()
        path.rmdir()
        shallow = LabelledImages(
            levels=(deep().levels % 256).astype(np.uint8), labels=deep().labels
        )
        write_store(path, shallow)
        assert json.loads((path / "manifest.json").read_bytes())["version"] == 1
        assert load_dataset(folder, ledger, facts.name) is None
        (damaged,) = load_datasets(folder, ledger)
        assert damaged.is_damaged
    finally:
        ledger.close()
