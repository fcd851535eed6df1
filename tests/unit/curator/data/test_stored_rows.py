"""A stored file that is cut is an error, never the end of the process, whoever was sampled."""

from __future__ import annotations

import gc
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from curator.data.groups import limit_groups
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.data.store import open_store, write_store
from curator.data.stored_rows import StoredRows
from curator.errors import DatasetOutOfService
from curator.privacy.event_numbers import SamplingRate
from tests.fakes.noise import NoNoise, SeededNoise

COUNT, WIDTH = 4_000, 16
ALL = SamplingRate(1 << 64)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    levels = np.random.default_rng(1).integers(1, 256, (COUNT, 1, 4, 4), dtype=np.uint8)
    write_store(tmp_path / "set", LabelledImages(levels=levels, labels=np.arange(COUNT) % 7))
    return tmp_path / "set"


def cut(folder: Path, name: str = "levels.npy", to: int = 200) -> None:
    os.truncate(folder / name, to)


def refuse_all(
    private: PrivateRecords, monkeypatch: pytest.MonkeyPatch, cut_now: Callable[[], None]
) -> None:
    """Cut the file when the first row of a batch is read, long after it was asked for."""
    real = os.pread

    def pread(file: int, length: int, offset: int) -> bytes:
        cut_now()
        return real(file, length, offset)

    monkeypatch.setattr(os, "pread", pread)


def test_rows_are_those_that_were_stored(folder: Path) -> None:
    rows = StoredRows(folder / "levels.npy")
    stored = np.load(folder / "levels.npy")
    chosen = np.array([7, 0, COUNT - 1, 7])
    assert rows.shape == (COUNT, WIDTH)
    assert np.array_equal(rows[chosen], stored[chosen])
    assert rows[chosen[:0]].shape == (0, WIDTH)
    assert np.array_equal(rows[5:9], stored[5:9])
    assert np.array_equal(rows[COUNT - 2 : COUNT + 5], stored[-2:])
    rows[chosen][:] = 0  # memory of its own
    assert np.array_equal(rows[chosen], stored[chosen])


def test_batches_from_the_disk_are_those_from_memory(folder: Path) -> None:
    stored = open_store(folder)
    in_memory = LabelledImages(
        levels=np.load(folder / "levels.npy").reshape(COUNT, 1, 4, 4),
        labels=stored.labels.astype(np.int64),
    )
    rate, one, other = SamplingRate.at_least(0.01), SeededNoise(3), SeededNoise(3)
    disk, memory = PrivateRecords(stored, 5_000), PrivateRecords(in_memory, 5_000)
    for _ in range(20):
        got = disk.poisson_batch(rate, 64, one).unseal()
        expected = memory.poisson_batch(rate, 64, other).unseal()
        for name in ("levels_MD", "labels_M", "mask_M", "units_M"):
            assert torch.equal(getattr(got, name), getattr(expected, name))
            assert getattr(got, name).dtype == getattr(expected, name).dtype
    for one_of, other_of in zip(disk.batches(300), memory.batches(300), strict=True):
        got, expected = one_of.unseal(), other_of.unseal()
        assert torch.equal(got.levels_MD, expected.levels_MD)
        assert torch.equal(got.labels_M, expected.labels_M)


@pytest.mark.parametrize("to", [0, 200, 128 + COUNT * WIDTH - 1])
def test_a_file_that_was_cut_gives_empty_batches_whoever_is_sampled(
    folder: Path, caplog: pytest.LogCaptureFixture, to: int
) -> None:
    private = PrivateRecords(open_store(folder))
    assert bool(private.poisson_batch(ALL, 9, NoNoise()).unseal().mask_M.all())
    whole = (folder / "levels.npy").read_bytes()
    cut(folder, to=to)
    for seed in range(5):
        batch = private.poisson_batch(ALL, 9, SeededNoise(seed)).unseal()
        assert batch.levels_MD.shape == (9, WIDTH)
        assert not bool(batch.mask_M.any())
        assert not bool(batch.levels_MD.any())
        assert bool((batch.units_M == -1).all())
    with pytest.raises(DatasetOutOfService):
        list(private.batches(64))
    (folder / "levels.npy").write_bytes(whole)
    assert not private.is_whole()  # nobody has checked what was put back
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert "data set set is out of service" in told[0]
    assert "restore" in told[0]


def test_a_cut_between_the_draw_and_the_copy_is_no_crash(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows before the cut can still be read; the batch is empty all the same."""
    private = PrivateRecords(open_store(folder))
    refuse_all(private, monkeypatch, lambda: cut(folder, to=128 + COUNT * WIDTH - 1))
    batch = private.poisson_batch(ALL, 9, NoNoise()).unseal()  # the first nine records
    assert not bool(batch.mask_M.any())


def test_a_pass_ends_for_a_public_cause_when_the_file_is_cut(folder: Path) -> None:
    batches = PrivateRecords(open_store(folder)).batches(64)
    assert bool(next(batches).unseal().mask_M.all())
    cut(folder, to=128 + (COUNT - 1) * WIDTH)  # only the last record is gone
    with pytest.raises(DatasetOutOfService):
        next(batches)


def test_a_record_that_the_disk_does_not_give_is_left_out_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, real, bad = PrivateRecords(open_store(folder)), os.pread, 128 + 3 * WIDTH
    whole = private.poisson_batch(ALL, 9, NoNoise()).unseal()

    def pread(file: int, length: int, offset: int) -> bytes:
        if offset == bad:
            raise OSError(5, "Input/output error")
        return real(file, length, offset)

    monkeypatch.setattr(os, "pread", pread)
    batch = private.poisson_batch(ALL, 9, NoNoise()).unseal()
    assert torch.equal(batch.mask_M, torch.arange(9) != 3)
    assert torch.equal(batch.levels_MD, whole.levels_MD * batch.mask_M.unsqueeze(1))
    assert private.is_whole()


def test_as_many_reads_of_one_length_whatever_is_sampled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, real, reads = PrivateRecords(open_store(folder)), os.pread, list[int]()

    def pread(file: int, length: int, offset: int) -> bytes:
        reads.append(length)
        return real(file, length, offset)

    monkeypatch.setattr(os, "pread", pread)
    sizes = set()
    for seed in range(30):
        reads.clear()
        batch = private.poisson_batch(SamplingRate.at_least(0.002), 24, SeededNoise(seed)).unseal()
        sizes.add(int(batch.mask_M.sum()))
        assert reads == [WIDTH] * 24
    assert len(sizes) > 3


def test_a_pass_reads_as_much_for_any_number_of_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, reads, seen = os.pread, list[int](), set()
    for count in (100, 101, 499, 700):
        levels = np.arange(count * 4, dtype=np.uint32).view(np.uint8).reshape(count, 1, 4, 4)
        write_store(tmp_path / str(count), LabelledImages(levels=levels, labels=np.arange(count)))
        private = PrivateRecords(open_store(tmp_path / str(count)), 700)

        def pread(file: int, length: int, offset: int) -> bytes:
            reads.append(length)
            return real(file, length, offset)

        reads.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", pread)
            batches = [batch.unseal() for batch in private.batches(64)]
        got = torch.cat([batch.levels_MD[batch.mask_M] for batch in batches])
        assert torch.equal(got, torch.from_numpy(levels.reshape(count, 16)))
        labels = torch.cat([batch.labels_M[batch.mask_M] for batch in batches])
        assert labels.tolist() == list(range(count))
        seen.add(tuple(reads))
    assert seen == {(64 * WIDTH,) * 11}


@pytest.mark.parametrize("name", ["labels.npy", "groups.npy", "manifest.json"])
def test_the_other_files_are_not_needed_any_more(tmp_path: Path, name: str) -> None:
    """Labels and groups are in memory, so cutting their files changes nothing until a start."""
    levels = np.arange(1, 81, dtype=np.uint8).reshape(20, 1, 2, 2)
    images = LabelledImages(levels=levels, labels=np.arange(20) % 3, groups=np.arange(20) // 2)
    write_store(tmp_path / "set", limit_groups(images, 2))
    private = PrivateRecords(open_store(tmp_path / "set"))
    before = private.poisson_batch(ALL, 20, NoNoise()).unseal()
    cut(tmp_path / "set", name, to=10)
    after = private.poisson_batch(ALL, 20, NoNoise()).unseal()
    assert bool(before.mask_M.all())
    assert torch.equal(before.labels_M, after.labels_M)
    assert torch.equal(before.levels_MD, after.levels_MD)


def test_the_file_stays_open_without_its_name_and_is_closed_with_the_records(folder: Path) -> None:
    private = PrivateRecords(open_store(folder))
    stored = private._stored
    assert stored is not None
    file, inode = stored._file, os.fstat(stored._file).st_ino
    shutil.rmtree(folder)
    assert bool(private.poisson_batch(ALL, 9, NoNoise()).unseal().mask_M.all())
    del private, stored
    gc.collect()
    with suppress(OSError):  # unless another file has its number now
        assert os.fstat(file).st_ino != inode


def test_nothing_is_said_of_a_file_that_is_whole(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    private = PrivateRecords(open_store(folder))
    assert private.is_whole()
    assert not caplog.records
