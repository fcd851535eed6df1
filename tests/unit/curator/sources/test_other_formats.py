"""HEIC, AVIF, JPEG 2000 and JPEG XL are images: read, or refused as what they are."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from curator.cli import ExitCode, main
from curator.sources.conversion import ImageRefused
from curator.sources.decode_image import open_image
from curator.sources.other_formats import UNREAD_ENDINGS, is_heif
from tests.fakes.awkward import encoded, grey, write_intact

HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(64)
AVIF = b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf" + bytes(64)
MOVIE = b"\0\0\0\x18ftypisom\0\0\0\0isommp42" + bytes(64)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    write_intact(tmp_path / "photos")
    return tmp_path / "photos"


def test_a_photograph_without_its_reader_is_refused_as_what_it_is(
    photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (photos / "cat" / "IMG_7.HEIC").write_bytes(HEIC)
    for skip in ([], ["--other-files", "skip"]):
        assert main(["dataset", "check", str(photos), *skip]) == ExitCode.FAILED
        out = capsys.readouterr().out
        assert "cat/IMG_7.HEIC: a HEIC photograph: pip install 'weir-dp[heif]'" in out
        assert "would be taken" not in out


@pytest.mark.parametrize("ending", [".heic", ".HEIF", *UNREAD_ENDINGS])
def test_every_ending_of_an_image_is_one(photos: Path, ending: str) -> None:
    (photos / "cat" / f"a{ending}").write_bytes(AVIF)
    assert main(["dataset", "check", str(photos), "--other-files", "skip"]) == ExitCode.FAILED


def test_content_tells_them_apart(tmp_path: Path) -> None:
    with pytest.raises(ImageRefused, match="an AVIF image"):
        is_heif(AVIF)
    for other in (MOVIE, b"", b"\0\0\0\x08ftyp", b"\xff\xff\xff\xffftypqt  ", encoded(grey())):
        assert not is_heif(other)
    path = tmp_path / "a.heic"
    path.write_bytes(MOVIE)
    with pytest.raises(ImageRefused, match="not an image of a known format"):
        open_image(path)


def test_what_an_option_leaves_out_is_not_counted_as_taken(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (photos / "cat" / "notes.txt").write_text("notes")
    assert main(["dataset", "check", str(photos)]) == ExitCode.FAILED
    assert "with --other-files skip 1 file left out\n" in capsys.readouterr().out
    (photos / "dog" / "c.png").write_bytes(encoded(grey().convert("RGB")))
    assert main(["dataset", "check", str(photos), "--image-shape", "1x8x8"]) == ExitCode.FAILED
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("with ")]
    assert line.endswith("1 of the 2 refused would be taken and 1 file left out")
    assert "--convert grey" in line


def test_a_photograph_is_read_where_the_extra_is_there(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif")
    picture = Image.fromarray(np.full((16, 24, 3), 90, np.uint8))
    stream = io.BytesIO()
    try:
        heif.from_pillow(picture).save(stream, quality=90)
    except RuntimeError:
        pytest.skip("this build of pillow-heif writes none")
    path = tmp_path / "IMG_7.HEIC"
    path.write_bytes(stream.getvalue())
    opened = open_image(path)
    assert (opened.file_format, opened.mode, opened.depth) == ("HEIF", "RGB", 8)
    assert opened.size == (24, 16)
    assert np.abs(np.asarray(opened.image).astype(int) - 90).max() <= 8
    path.write_bytes(stream.getvalue()[:-20])
    with pytest.raises(ImageRefused, match="damaged or truncated HEIF"):
        open_image(path)
