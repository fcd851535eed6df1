from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from analyst.errors import ImageFileError
from analyst.evaluation.charts import confusion_chart
from analyst.evaluation.classifier import PAPER_CLASSIFIERS, SUITE_CLASSIFIERS, Classifier, evaluate
from analyst.evaluation.image_file import LabelledImages, load_images, save_images


def _images(num: int, seed: int, *, num_classes: int = 3) -> LabelledImages:
    """Class c is bright in column c."""
    randomness = np.random.default_rng(seed)
    images = randomness.integers(0, 60, (num, 1, 4, 4), dtype=np.uint8)
    labels = np.arange(num) % num_classes
    for image, label in zip(images, labels, strict=True):
        image[0, :, label] = 250
    return LabelledImages(images, labels.astype(np.int64))


@pytest.mark.parametrize("classifier", SUITE_CLASSIFIERS)
def test_a_clear_problem_is_solved_by_each_of_the_thirteen(classifier: Classifier) -> None:
    report = evaluate(_images(600, 0), _images(60, 1), classifier)
    assert report.accuracy > 0.9
    assert np.trace(report.confusion) == round(60 * report.accuracy)
    assert [row.num_test for row in report.rows] == [20, 20, 20]
    assert f"{classifier}: accuracy" in report.table()


def test_rows_count_what_is_missed() -> None:
    test = _images(60, 1)
    swapped = LabelledImages(test.images, np.where(test.labels == 2, 0, test.labels))
    report = evaluate(_images(120, 0), swapped, "logistic")
    assert report.accuracy == pytest.approx(2 / 3)
    assert report.rows[0].recall == 0.5
    assert report.rows[0].precision == 1.0
    assert report.rows[1].recall == 1.0
    assert report.labels == (0, 1, 2)
    assert report.confusion == ((20, 0, 20), (0, 20, 0), (0, 0, 0))


def test_labels_need_not_start_at_zero_nor_be_the_same() -> None:
    synthetic, test = _images(120, 0), _images(60, 1)
    moved = LabelledImages(synthetic.images, 3 * synthetic.labels + 5)
    missing = LabelledImages(test.images, np.where(test.labels == 2, 99, 3 * test.labels + 5))
    for classifier in ("logistic", "mlp"):
        report = evaluate(moved, missing, classifier)
        assert report.labels == (5, 8, 11, 99)
        assert report.confusion[3][2] == 20  # told apart, under the only name it knows
        assert [row.num_synthetic for row in report.rows] == [40, 40, 0]


def test_classes_are_named_where_names_are_known() -> None:
    synthetic = replace(_images(120, 0), classes=("circle", "cross", "square"))
    report = evaluate(synthetic, _images(60, 1), "logistic")
    assert report.names == ("circle", "cross", "square")
    assert [row.name for row in report.rows] == ["circle", "cross", "square"]
    head, *rows = report.table().splitlines()[1:]
    assert len({len(line) for line in (head, *rows)}) == 1  # in columns
    assert rows[2].split()[0] == "square"
    assert confusion_chart(replace(report, names=("$", "a_b", "$\\frac$"))).startswith(b"\x89PNG")
    bare = evaluate(_images(120, 0), _images(60, 1), "logistic")
    assert bare.names == ("0", "1", "2")


def test_the_suite_has_thirteen_and_begins_with_the_papers_three() -> None:
    assert len(set(SUITE_CLASSIFIERS)) == 13
    assert SUITE_CLASSIFIERS[:3] == PAPER_CLASSIFIERS


def test_files_round_trip_without_a_channel_axis(tmp_path: Path) -> None:
    data = _images(6, 0)
    path = tmp_path / "new" / "images.npz"
    save_images(path, data)
    with np.load(path, allow_pickle=False) as archive:
        assert archive["images"].shape == (6, 4, 4)
    again = load_images(path)
    assert (again.images == data.images).all()
    assert (again.labels == data.labels).all()


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"images": np.zeros((2, 4, 4), np.uint8)}, "labels"),
        ({"images": np.zeros((2, 4, 4)), "labels": np.zeros(2, int)}, "float64"),
        ({"images": np.zeros((2, 4, 4), np.uint8), "labels": np.zeros(3, int)}, "labels are"),
        ({"images": np.array([{}, {}], object), "labels": np.zeros(2, int)}, "holds objects"),
    ],
)
def test_other_files_are_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]], text: str
) -> None:
    np.savez(tmp_path / "x.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(ImageFileError, match=text):
        load_images(tmp_path / "x.npz")


def npy(described: str, content: bytes = b"") -> bytes:
    """Return a file of an array with any header."""
    head = described.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + content


def plain(array: npt.NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize(
    "images",
    [
        npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,8,8"),
        npy("  x\n y"),
        npy("{'descr': '|u1', 'fortran_order': False, 'shape': (-1, 8, 8)}"),
        npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({10**30}, 0, 8)}}"),
        npy("{'descr': 5, 'fortran_order': False, 'shape': (4, 8, 8)}"),
        npy("{[]: 1}"),
    ],
)
def test_crafted_headers_are_refused(tmp_path: Path, images: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("images.npy", images)
        archive.writestr("labels.npy", plain(np.zeros(4, int)))
    with pytest.raises(ImageFileError):
        load_images(tmp_path / "x.npz")


def test_names_that_no_data_set_has_are_not_read(tmp_path: Path) -> None:
    """A run's identifier is printed on terminals, and names of no length cost nothing in a file."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("images.npy", plain(np.zeros((4, 8, 8), np.uint8)))
        archive.writestr("labels.npy", plain(np.zeros(4, int)))
        archive.writestr("run_id.npy", plain(np.array("\x1b[2J" + "a" * 28)))
        shape = f"{{'descr': '<U0', 'fortran_order': False, 'shape': ({10**9},)}}"
        archive.writestr("classes.npy", npy(shape))
    data = load_images(tmp_path / "x.npz")
    assert (data.run_id, data.classes) == ("", ())


def test_a_file_with_both_parts(tmp_path: Path) -> None:
    images = np.zeros((5, 4, 4), np.uint8)
    np.savez(
        tmp_path / "both.npz",
        x_train=images[:3],
        y_train=np.arange(3),
        x_test=images[3:],
        y_test=np.arange(2),
    )
    assert len(load_images(tmp_path / "both.npz").labels) == 3
    assert len(load_images(tmp_path / "both.npz", part="test").labels) == 2


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"PK nothing")
    for name in ("x.npz", "missing.npz"):
        with pytest.raises(ImageFileError, match=name):
            load_images(tmp_path / name)


def test_images_must_match() -> None:
    small = LabelledImages(np.zeros((6, 1, 2, 2), np.uint8), np.arange(6) % 3)
    with pytest.raises(ImageFileError, match="differ"):
        evaluate(small, _images(6, 0), "logistic")
    with pytest.raises(ImageFileError, match="one class"):
        evaluate(_images(6, 0, num_classes=1), _images(6, 0), "logistic")
