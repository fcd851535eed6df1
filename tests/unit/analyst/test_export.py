from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from analyst.cli import ExitCode, main
from analyst.errors import ImageFileError
from analyst.evaluation.export import export_images
from analyst.evaluation.image_file import LabelledImages, load_images, save_images
from curator.sources.array_readers import read_source
from curator.sources.idx import read_idx


def _data(channels: int = 1, *, num: int = 12) -> LabelledImages:
    randomness = np.random.default_rng(0)
    images = randomness.integers(0, 256, (num, channels, 5, 7), dtype=np.uint8)
    return LabelledImages(images, np.arange(num, dtype=np.int64) % 11)


@pytest.mark.parametrize("channels", [1, 3])
def test_npz_is_what_the_curator_reads(tmp_path: Path, channels: int) -> None:
    data = _data(channels)
    export_images(data, "npz", tmp_path / "new" / "s.npz")
    again = read_source(str(tmp_path / "new" / "s.npz"))
    assert np.array_equal(again.levels, data.images)
    assert np.array_equal(again.labels, data.labels)


def test_idx_is_what_the_curator_reads(tmp_path: Path) -> None:
    data = _data()
    export_images(data, "idx", tmp_path / "idx")
    again = read_source(str(tmp_path / "idx"))
    assert np.array_equal(again.levels, data.images)
    assert np.array_equal(again.labels, data.labels)


def test_idx_of_colours_has_four_dimensions(tmp_path: Path) -> None:
    data = _data(3)
    export_images(data, "idx", tmp_path / "idx")
    assert np.array_equal(read_idx(tmp_path / "idx" / "train-images-idx4-ubyte"), data.images)
    pair = ("train-images-idx4-ubyte", "train-labels-idx1-ubyte")
    again = read_source(",".join(str(tmp_path / "idx" / name) for name in pair))
    assert np.array_equal(again.levels, data.images)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_folder_has_a_subfolder_a_class(tmp_path: Path, channels: int) -> None:
    data = _data(channels)
    export_images(data, "folder", tmp_path / "f")
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == [
        f"{label:02d}" for label in range(11)
    ]
    for index, (image, label) in enumerate(zip(data.images, data.labels, strict=True)):
        with Image.open(tmp_path / "f" / f"{label:02d}" / f"{index:02d}.png") as picture:
            pixels = np.asarray(picture)
        expected = image[0] if channels == 1 else image.transpose(1, 2, 0)
        assert np.array_equal(pixels, expected)


def test_what_a_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageFileError, match="1 or 3 channels, not 2"):
        export_images(_data(2), "folder", tmp_path / "a")
    wide = LabelledImages(_data().images, _data().labels + 250)
    with pytest.raises(ImageFileError, match="0 to 255"):
        export_images(wide, "idx", tmp_path / "b")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(ImageFileError, match="not an empty directory"):
        export_images(_data(), "idx", tmp_path / "full")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_images(tmp_path / "s.npz", _data())
    argv = ["export", str(tmp_path / "s.npz"), "--format", "idx", "--out", str(tmp_path / "idx")]
    assert main(argv) == ExitCode.OK
    assert "wrote 12 images" in capsys.readouterr().err
    assert len(read_source(str(tmp_path / "idx")).labels) == 12
    assert main(argv) == ExitCode.FILES
    assert "what to do: " in capsys.readouterr().err


def test_an_existing_file_is_replaced_with_force_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_images(tmp_path / "s.npz", dataclasses.replace(_data(), run_id="r1"))
    out = tmp_path / "out.npz"
    out.write_text("mine")
    argv = ["export", str(tmp_path / "s.npz"), "--format", "npz", "--out", str(out)]
    assert main(argv) == ExitCode.FILES
    assert f"{out} exists already" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert main([*argv, "--force"]) == ExitCode.OK
    assert load_images(out).run_id == "r1"
    assert np.array_equal(read_source(str(out)).levels, _data().images)


def test_folders_carry_the_names_of_classes(tmp_path: Path) -> None:
    named = dataclasses.replace(_data(), classes=tuple(f"kind {k}" for k in range(11)))
    save_images(tmp_path / "named.npz", named)
    assert load_images(tmp_path / "named.npz").classes == named.classes
    argv = ["export", str(tmp_path / "named.npz"), "--format", "folder", "--out"]
    assert main([*argv, str(tmp_path / "f")]) == ExitCode.OK
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == sorted(named.classes)


@pytest.mark.parametrize("bad", ["../up", "a/b", "..", "", ".hidden", "KIND 1", "dot.", "nul\0"])
def test_names_that_cannot_be_folders_are_numbers(tmp_path: Path, bad: str) -> None:
    classes = tuple(bad if k == 0 else f"kind {k}" for k in range(11))
    export_images(dataclasses.replace(_data(), classes=classes), "folder", tmp_path / "f")
    names = sorted(path.name for path in (tmp_path / "f").iterdir())
    assert names == [f"{label:02d}" for label in range(11)]
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
