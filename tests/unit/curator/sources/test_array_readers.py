"""Sources are read completely or refused with the file's name and what is wrong."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from curator.data.errors import SourceError
from curator.sources.array_readers import read_source
from curator.sources.idx import read_idx

IMAGES = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
LABELS = np.array([0, 1, 2], dtype=np.uint8)


def idx_bytes(array: np.ndarray) -> bytes:
    return (
        struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        + array.astype(np.uint8).tobytes()
    )


@pytest.fixture
def images_file(tmp_path: Path) -> Path:
    path = tmp_path / "images.idx"
    path.write_bytes(idx_bytes(IMAGES))
    return path


def test_idx_plain_and_gzipped(tmp_path: Path, images_file: Path) -> None:
    zipped = tmp_path / "images.idx.gz"
    zipped.write_bytes(gzip.compress(images_file.read_bytes()))
    assert np.array_equal(read_idx(images_file), IMAGES)
    assert np.array_equal(read_idx(zipped), IMAGES)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\0\0", "magic"),
        (b"\x01\0\x08\x01\0\0\0\x01a", "magic"),
        (b"\0\0\x0d\x01\0\0\0\x01aaaa", "magic"),
        (b"\0\0\x08\0", "magic"),
        (b"\0\0\x08\x03\0\0\0\x01", "header is truncated"),
        (idx_bytes(IMAGES)[:-1], "60 bytes, the file holds 59"),
        (idx_bytes(IMAGES) + b"x", "60 bytes, the file holds more"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "would unpack to"),
    ],
)
def test_a_damaged_idx_file_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "images.idx"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=words) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_damaged_gzip_file_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "images.idx.gz"
    path.write_bytes(gzip.compress(idx_bytes(IMAGES))[:-cut])
    with pytest.raises(SourceError, match=r"damaged gzip|cannot be read"):
        read_idx(path)


def test_a_pair_and_a_folder_of_idx_files(tmp_path: Path) -> None:
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(IMAGES)))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(LABELS)))
    pair = ",".join(str(path) for path in sorted(tmp_path.iterdir()))
    for source in (pair, str(tmp_path)):
        images = read_source(source)
        assert images.levels.shape == (3, 1, 4, 5)
        assert images.labels.tolist() == [0, 1, 2]


def test_npz_with_known_and_named_keys(tmp_path: Path) -> None:
    for names in (("images", "labels"), ("x_train", "y_train"), ("a", "b")):
        path = tmp_path / "set.npz"
        arrays: dict[str, Any] = dict(zip(names, (IMAGES, LABELS), strict=True))
        np.savez(path, **arrays)
        keys = names if names == ("a", "b") else None
        assert read_source(str(path), keys=keys).levels.shape == (3, 1, 4, 5)


@pytest.mark.parametrize(
    "names", [np.array([7, -3, 7]), np.array(["p2", "p1", "p2"]), np.array([b"z", b"a", b"z"])]
)
def test_groups_are_numbered_whatever_they_are_called(tmp_path: Path, names: np.ndarray) -> None:
    path = tmp_path / "set.npz"
    np.savez(path, images=IMAGES, labels=LABELS, patients=names)
    images = read_source(str(path), groups_key="patients")
    assert images.groups is not None
    assert images.groups.tolist() == [1, 0, 1]
    assert read_source(str(path)).groups is None


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (np.array([1, 2]), "3 images but 2 groups"),
        (np.array([1.0, 2.0, 3.0]), "one integer or string"),
        (np.array([True, False, True]), "one integer or string"),
        (np.array([[1], [2], [3]]), "one integer or string"),
        (np.array(["a", None, "b"], dtype=object), "plain arrays"),
        (None, "holds no array 'patients'"),
    ],
)
def test_groups_that_cannot_be_read(tmp_path: Path, names: np.ndarray | None, words: str) -> None:
    path = tmp_path / "set.npz"
    arrays: dict[str, Any] = {"images": IMAGES, "labels": LABELS}
    np.savez(path, **(arrays if names is None else arrays | {"patients": names}))
    with pytest.raises(SourceError, match=words):
        read_source(str(path), groups_key="patients")


def test_groups_come_from_npz_files_only() -> None:
    with pytest.raises(SourceError, match=r"\.npz file only"):
        read_source("sklearn:digits", groups_key="patients")


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (IMAGES, LABELS[:2], "3 images but 2 labels"),
        (IMAGES[:0], LABELS[:0], "no images"),
        (IMAGES[0], LABELS, "shape"),
        (IMAGES.astype(np.float32), LABELS, "integers from 0 to 255"),
        (IMAGES.astype(np.int32) * 10_000, LABELS, "integers from 0 to 255"),
        (IMAGES, LABELS.astype(float), "one integer per image"),
        (IMAGES, LABELS[:, None], "one integer per image"),
        (IMAGES[:, :0], LABELS, "shape"),
    ],
)
def test_arrays_that_are_not_labelled_images(
    tmp_path: Path, images: np.ndarray, labels: np.ndarray, words: str
) -> None:
    path = tmp_path / "set.npz"
    np.savez(path, images=images, labels=labels)
    with pytest.raises(SourceError, match=words):
        read_source(str(path))


def test_an_npz_file_never_unpickles(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    np.savez(path, images=np.array([{"a": 1}], dtype=object), labels=LABELS)
    with pytest.raises(SourceError, match="plain arrays"):
        read_source(str(path))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip file at all"])
def test_a_damaged_npz_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "set.npz"
    path.write_bytes(content)
    with pytest.raises(SourceError, match="empty, truncated or not an NPZ"):
        read_source(str(path))


@pytest.mark.parametrize(
    "source", ["/nowhere.npz", "/nowhere", "/a.idx,/b.idx", "sklearn:faces", "/etc/hostname"]
)
def test_a_source_that_is_not_there_is_refused(source: str) -> None:
    with pytest.raises(SourceError):
        read_source(source)


def test_the_public_fifth_of_the_digits_is_left_out() -> None:
    assert len(read_source("sklearn:digits").labels) == 1797
    assert len(read_source("sklearn:digits-private").labels) == 1437
