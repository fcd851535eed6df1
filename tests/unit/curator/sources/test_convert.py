"""Conversions give the levels that the documentation promises."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from curator.sources.conversion import Conversion, ImageRefused
from curator.sources.convert import convert
from curator.sources.decode_image import OpenedImage, open_image
from tests.fakes.awkward import animated, deep_grey, encoded, grey, levels, png, rgb


def opened(tmp_path: Path, data: bytes) -> OpenedImage:
    path = tmp_path / "one"
    path.write_bytes(data)
    return open_image(path)


def converted(tmp_path: Path, data: bytes, **allowed: Any) -> np.ndarray:
    return convert(opened(tmp_path, data), Conversion(**allowed)).levels


@pytest.mark.parametrize("file_format", ["PNG", "BMP", "TIFF"])
def test_what_fits_is_taken_as_it_is(tmp_path: Path, file_format: str) -> None:
    grey_levels = converted(tmp_path, encoded(grey(), file_format), shape=(1, 8, 8))
    assert np.array_equal(grey_levels, levels(1)[np.newaxis])
    rgb_levels = converted(tmp_path, encoded(rgb(), file_format), shape=(3, 8, 8))
    assert np.array_equal(rgb_levels, levels(2, 8, 8, 3).transpose(2, 0, 1))
    assert rgb_levels.flags["C_CONTIGUOUS"]


def test_sixteen_bits_are_scaled_and_rounded(tmp_path: Path) -> None:
    values = np.random.default_rng(5).integers(0, 1 << 16, (8, 8))
    scaled = converted(tmp_path, deep_grey(), sixteen_bit="scale")
    assert np.array_equal(scaled[0], np.rint(values / 257))


def test_few_bits_span_all_levels(tmp_path: Path) -> None:
    four = converted(tmp_path, png(2, 1, 4, 0, b"\0\x0f"), colour="grey")
    assert four.tolist() == [[[0, 255]]]
    bit = converted(tmp_path, encoded(Image.fromarray(np.eye(2, dtype=bool))), colour="grey")
    assert bit.tolist() == [[[255, 0], [0, 255]]]


@pytest.mark.parametrize(("alpha", "level"), [("white", 255), ("black", 0)])
def test_transparency_is_laid_over_a_colour(tmp_path: Path, alpha: str, level: int) -> None:
    image = Image.merge(
        "LA",
        (
            grey(),
            Image.fromarray(np.repeat(np.array([[0, 255]], np.uint8), 4, 1)).resize(
                (8, 8), Image.Resampling.NEAREST
            ),
        ),
    )
    laid = converted(tmp_path, encoded(image), alpha=alpha)[0]
    assert (laid[:, :4] == level).all()
    assert np.array_equal(laid[:, 4:], levels(1)[:, 4:])
    palette = encoded(rgb().quantize(8), transparency=0)
    index = np.asarray(rgb().quantize(8))
    over = converted(tmp_path, palette, alpha=alpha, colour="rgb")
    assert (over[:, index == 0] == level).all()
    assert np.array_equal(
        over[:, index != 0],
        np.asarray(rgb().quantize(8).convert("RGB")).transpose(2, 0, 1)[:, index != 0],
    )


@pytest.mark.parametrize("file_format", ["PNG", "TIFF", "WEBP", "JPEG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turns_every_format_once(tmp_path: Path, file_format: str, orientation: int) -> None:
    wide = np.zeros((6, 12), dtype=np.uint8)
    wide[:3, :6] = 255  # the top left quarter
    exif = Image.Exif()
    exif[0x0112] = orientation
    more = {"lossless": True} if file_format == "WEBP" else {}
    data = encoded(Image.fromarray(wide), file_format, exif=exif, **more)
    if orientation == 1:
        assert converted(tmp_path, data, colour="grey").shape == (1, 6, 12)
        return
    with pytest.raises(ImageRefused, match=rf"orientation {orientation}: add --exif rotate"):
        converted(tmp_path, data, colour="grey")
    turned = converted(tmp_path, data, colour="grey", exif="rotate")[0] > 127
    expected = {
        2: wide[:, ::-1],
        3: wide[::-1, ::-1],
        4: wide[::-1],
        5: wide.T,
        6: np.rot90(wide, -1),
        7: wide.T[::-1, ::-1],
        8: np.rot90(wide),
    }[orientation]
    assert np.array_equal(turned, expected > 127)
    shape = (1, *expected.shape)
    assert converted(tmp_path, data, colour="grey", exif="rotate", shape=shape).shape == shape


def test_fit_keeps_the_picture_and_crop_its_middle(tmp_path: Path) -> None:
    wide = np.full((4, 8), 200, dtype=np.uint8)
    wide[:, :2] = wide[:, 6:] = 10
    data = encoded(Image.fromarray(wide))
    fit = converted(tmp_path, data, shape=(1, 8, 8), resize="fit")[0]
    assert (fit[:2] == 0).all()
    assert (fit[6:] == 0).all()
    assert np.array_equal(fit[2:6], wide)
    crop = converted(tmp_path, data, shape=(1, 4, 4), resize="crop")[0]
    assert (crop == 200).all()


@pytest.mark.parametrize("resize", ["fit", "crop"])
@pytest.mark.parametrize("size", [(1, 5000), (5000, 1), (1, 1), (7, 9)])
def test_any_proportions_become_the_shape(
    tmp_path: Path, resize: str, size: tuple[int, int]
) -> None:
    image = Image.new("L", size, 9)
    assert converted(tmp_path, encoded(image), shape=(1, 8, 6), resize=resize).shape == (1, 8, 6)


def test_frames_give_the_first(tmp_path: Path) -> None:
    first = converted(tmp_path, animated("GIF"), frames="first", colour="rgb")
    still = converted(tmp_path, encoded(rgb(3), "GIF"), colour="rgb")
    assert np.array_equal(first, still)


@pytest.mark.parametrize(
    ("file_format", "options"),
    [
        ("PNG", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("BMP", {}),
        ("TIFF", {}),
        ("WEBP", {}),
        ("GIF", {}),
    ],
)
def test_a_truncated_file_is_refused_or_loses_nothing(
    tmp_path: Path, file_format: str, options: dict[str, Any]
) -> None:
    data = encoded(rgb(), file_format, **options)
    whole = np.asarray(opened(tmp_path, data).image)
    refused = 0
    for length in range(1, len(data), 3):
        try:
            part = np.asarray(opened(tmp_path, data[:length]).image)
        except ImageRefused:
            refused += 1
        else:
            assert np.array_equal(part, whole)
    assert refused > len(data) // 3 - 5


def test_noise_in_a_file_is_an_image_or_a_refusal(tmp_path: Path) -> None:
    generator, outcomes = np.random.default_rng(8), set()
    for file_format in ("PNG", "JPEG", "BMP", "WEBP", "GIF"):
        data = np.frombuffer(encoded(rgb(), file_format), np.uint8)
        for _ in range(60):
            noisy = data.copy()
            places = generator.integers(4, len(data), 3)
            noisy[places] = generator.integers(0, 256, 3)
            try:
                one = convert(opened(tmp_path, noisy.tobytes()), Conversion(colour="grey"))
            except ImageRefused:
                outcomes.add("refused")
            else:
                outcomes.add("taken")
                assert one.levels.dtype == np.uint8
    assert outcomes == {"refused", "taken"}


def test_a_file_too_long_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "long.png"
    with path.open("wb") as stream:
        stream.truncate((256 << 20) + 1)
    with pytest.raises(ImageRefused, match="longer than 256 MiB: save a smaller copy"):
        open_image(path)


def test_no_other_reader_of_pillow_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    path.write_bytes(encoded(grey()))
    (tmp_path / "eps.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n")
    script = (
        "import sys; from pathlib import Path\n"
        "from curator.sources.decode_image import open_image\n"
        "open_image(Path(sys.argv[1]))\n"
        "try: open_image(Path(sys.argv[2]))\n"
        "except ValueError as problem: print(problem)\n"
        "print(*sorted(name for name in sys.modules if name.endswith('ImagePlugin')))"
    )
    out = subprocess.run(
        [sys.executable, "-c", script, str(path), str(tmp_path / "eps.png")],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parents[4],
    ).stdout.splitlines()
    assert "not an image of a known format" in out[0]
    loaded = {name.removeprefix("PIL.").removesuffix("ImagePlugin") for name in out[1].split()}
    assert loaded <= {"Png", "Jpeg", "Bmp", "Gif", "Tiff", "WebP", "Ppm"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"resize": "fit"}, "--resize fit needs --image-shape"),
        ({"shape": (2, 8, 8)}, "1 channel .* or 3 .*, --image-shape has 2"),
        ({"shape": (3, 8, 8), "colour": "grey"}, "--convert grey gives 1 channels"),
    ],
)
def test_options_that_contradict_each_other(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Conversion(**changes)
