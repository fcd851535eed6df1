"""CelebA's table of attributes as labels, arrays that are resized, and a public copy of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from curator.cli import main
from curator.data.errors import SourceError
from curator.sources.attributes import attribute_rows
from curator.sources.conversion import Conversion
from curator.sources.ingest import ingest_source, survey_source
from curator.sources.options import SourceOptions, no_progress

FACES = 6


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """A folder as CelebA's: 178 x 218 JPEGs and a table with two attributes."""
    folder = tmp_path / "img_align_celeba"
    folder.mkdir()
    lines = [str(FACES), "Male Smiling"]
    for number in range(1, FACES + 1):
        level = 40 * number
        Image.new("RGB", (178, 218), (level, 0, 0)).save(folder / f"{number:06d}.jpg")
        lines.append(f"{number:06d}.jpg  {1 if number % 2 else -1} -1")
    (tmp_path / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    return folder


def _options(faces: Path, **changes: object) -> SourceOptions:
    given = {
        "labels": faces.parent / "list_attr_celeba.txt",
        "attribute": "Male",
        "classes": ("no", "yes"),
        "conversion": Conversion(shape=(3, 32, 32), resize="crop"),
        **changes,
    }
    return SourceOptions(**given)  # type: ignore[arg-type]


def test_an_attribute_is_the_label(faces: Path, tmp_path: Path) -> None:
    images, survey = ingest_source(str(faces), _options(faces), tmp_path, no_progress)
    assert images.labels.tolist() == [1, 0, 1, 0, 1, 0]
    assert images.levels.shape == (FACES, 3, 32, 32)
    assert not survey.refusals


def test_some_rows_are_taken_and_the_rest_is_reported(faces: Path, tmp_path: Path) -> None:
    options = _options(faces, rows=(3, 5))
    images, survey = ingest_source(str(faces), options, tmp_path, no_progress)
    assert images.labels.tolist() == [1, 0, 1]
    assert [why for _, why in survey.left_out] == ["not named in the table"] * 3


@pytest.mark.parametrize(
    ("text", "attribute", "words"),
    [
        ("2\nMale\na.jpg 1\n", None, "say which attribute is the label with --attribute NAME"),
        ("2\nMale\na.jpg 1\n", "Young", "has no attribute 'Young'; it has Male"),
        ("path,label\na.jpg,1\n", "Male", "its first line must be a number"),
        ("1\n", "Male", "its first line must be a number"),
        ("1\nMale\na.jpg 1 1\n", "Male", "row 1 must have a file's name"),
        ("2\nMale\na.jpg 1\nb.jpg 0\n", "Male", "row 2 must have a file's name"),
        ("2\nMale\na.jpg 1\n", "Male", "its first line says 2 rows, and it has 1"),
    ],
)
def test_what_is_no_such_table_is_refused(
    tmp_path: Path, text: str, attribute: str | None, words: str
) -> None:
    table = tmp_path / "list.txt"
    table.write_text(text)
    with pytest.raises(SourceError, match=words):
        list(attribute_rows(table, attribute))
    with pytest.raises(SourceError, match="nowhere"):
        list(attribute_rows(tmp_path / "nowhere.txt", "Male"))


def test_an_attribute_is_of_a_table_of_attributes(faces: Path) -> None:
    table = faces.parent / "labels.csv"
    table.write_text("path,label\n000001.jpg,yes\n")
    with pytest.raises(SourceError, match=r"--attribute is for a \.txt file"):
        survey_source(str(faces), _options(faces, labels=table), no_progress)
    options = SourceOptions(attribute="Male")
    with pytest.raises(SourceError, match="for a table that --labels names"):
        survey_source("sklearn:digits", options, no_progress)


@pytest.mark.parametrize("resize", ["crop", "fit"])
def test_arrays_are_resized_where_that_is_asked(tmp_path: Path, resize: str) -> None:
    source = tmp_path / "a.npz"
    levels = np.full((4, 3, 12, 8), 7, np.uint8)
    levels[:, :, 6:] = 16
    np.savez(source, images=levels, labels=np.arange(4))
    conversion = Conversion(shape=(3, 6, 6), resize=resize)  # type: ignore[arg-type]
    options = SourceOptions(conversion=conversion, classes=tuple("abcd"))
    images, survey = ingest_source(str(source), options, tmp_path, no_progress)
    assert images.levels.shape == (4, 3, 6, 6)
    assert images.levels.max() == 16  # no level that the image had not
    assert images.levels.min() == (7 if resize == "crop" else 0)  # bars are black
    assert survey.conversions == {f"resized by --resize {resize}": 4}
    assert survey.sizes == {(8, 12): 4}
    plain = SourceOptions(conversion=Conversion(shape=(3, 6, 6)))
    assert survey_source(str(source), plain, no_progress).refusals


def test_a_public_copy_is_made_as_add_would_store_it(
    faces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "test.npz"
    table = str(faces.parent / "list_attr_celeba.txt")
    words = ["dataset", "convert", str(faces), "--labels", table, "--attribute", "Male"]
    words += ["--classes", "no,yes", "--image-shape", "3x32x32", "--resize", "crop"]
    words += ["--rows", "5-6", "--out", str(out)]
    assert main(words) == 0
    assert "wrote 2 images" in capsys.readouterr().out
    with np.load(out) as archive:
        assert archive["images"].shape == (2, 3, 32, 32)
        assert archive["labels"].tolist() == [1, 0]
        assert archive["classes"].tolist() == ["no", "yes"]
    assert main(words) != 0  # nothing is replaced
    assert "exists already" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0
    assert main([*words[:-1], str(tmp_path / "test.txt")]) == 1
    assert main([*words[:-3], "2-1", "--out", str(out), "--force"]) == 1
