"""A folder with one awkward image: of every kind in docs/how-to/bring-your-data.md."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageCms
from pydicom.uid import JPEG2000Lossless

from tests.fakes import dicom

EDGE = 8
INTACT = "cat/intact.png"


@dataclass(frozen=True)
class Awkward:
    """What was built: the name under which it is reported, the table if any, images if taken."""

    name: str
    table: str | None = None
    images: int = 2  # with the intact one


Build = Callable[[Path], Awkward]
KINDS: dict[str, Build] = {}


def levels(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape or (EDGE, EDGE), dtype=np.uint8)


def grey(seed: int = 1, *shape: int) -> Image.Image:
    return Image.fromarray(levels(seed, *shape))


def rgb(seed: int = 2) -> Image.Image:
    return Image.fromarray(levels(seed, EDGE, EDGE, 3))


def encoded(image: Image.Image, file_format: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, file_format, **options)
    return stream.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, depth: int, colour: int, rows: bytes) -> bytes:
    """Write a PNG of a kind that Pillow does not write."""
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def write_intact(root: Path) -> None:
    for label in ("cat", "dog"):
        (root / label).mkdir(parents=True)
    (root / INTACT).write_bytes(encoded(grey(0)))


def kind(name: str) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        KINDS[name] = build
        return build

    return register


def file(name: str, file_name: str, content: Callable[[], bytes]) -> None:
    """Register a kind that is one file in the second class."""

    def build(root: Path) -> Awkward:
        (root / "dog" / file_name).write_bytes(content())
        return Awkward(f"dog/{file_name}")

    KINDS[name] = build


def table(name: str, rows: str, reported: str, images: int = 2) -> None:
    """Register a kind that is a table beside two intact images."""

    def build(root: Path) -> Awkward:
        (root / "dog" / "b.png").write_bytes(encoded(grey()))
        return Awkward(reported, table=rows, images=images)

    KINDS[name] = build


def deep_grey(width: int = EDGE, height: int = EDGE) -> bytes:
    values = np.random.default_rng(5).integers(0, 1 << 16, (height, width)).astype(np.uint16)
    return encoded(Image.fromarray(values))


def transparent_palette() -> bytes:
    return encoded(rgb().quantize(16), transparency=3)


def with_exif(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(grey(), "JPEG", exif=exif)


def animated(file_format: str) -> bytes:
    return encoded(rgb(3), file_format, save_all=True, append_images=[rgb(4)], duration=100)


def damaged_checksum() -> bytes:
    data = bytearray(encoded(grey()))
    data[-13] ^= 1  # the last byte of the image's checksum
    return bytes(data)


def with_profile() -> bytes:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return encoded(grey(), icc_profile=profile)


def with_transparent_level() -> bytes:
    return encoded(grey(), transparency=7)


def scan(**changes: Any) -> Callable[[], bytes]:
    return lambda: dicom.dicom(dicom.values(), **changes)


def deep_tiff(values: np.ndarray, photometric: int) -> bytes:
    """Write a TIFF of 16 bits and of a kind that Pillow does not write."""
    tags = (
        (256, 8),
        (257, 8),
        (258, 16),
        (259, 1),
        (262, photometric),
        (273, 8),
        (277, 1),
        (278, 8),
        (279, 128),
        (339, 1 + (values.dtype.kind == "i")),
    )
    at = 8 + 128
    entries = b"".join(
        struct.pack("<HHII", tag, 4 if tag in {273, 279} else 3, 1, value) for tag, value in tags
    )
    body = values.astype(values.dtype.newbyteorder("<")).tobytes()
    return (
        struct.pack("<2sHI", b"II", 42, at)
        + body
        + struct.pack("<H", len(tags))
        + entries
        + bytes(4)
    )


file("16-bit grey", "deep.png", deep_grey)
file("16-bit grey TIFF", "deep.tif", lambda: deep_tiff(dicom.values(16), 1))
file("16-bit TIFF whose white is 0", "deep.tif", lambda: deep_tiff(dicom.values(16), 0))
file("DICOM", "a.dcm", scan())
file("DICOM whose least value is white", "a.dcm", scan(PhotometricInterpretation="MONOCHROME1"))
file("DICOM without a slope", "a.dcm", scan(slope=None))
file("DICOM in colour", "a.dcm", scan(SamplesPerPixel=3, PhotometricInterpretation="RGB"))
file("DICOM of several frames", "a.dcm", scan(NumberOfFrames=2))
file("DICOM that is compressed", "a.dcm", scan(syntax=JPEG2000Lossless))
file("DICOM with words in its pixels", "a.dcm", scan(BurnedInAnnotation="YES"))
file("DICOM with a lookup table", "a.dcm", scan(ModalityLUTSequence=dicom.table()))
file("DICOM without an image", "a.dcm", scan(PixelData=None))
file("truncated DICOM", "a.dcm", lambda: scan()()[:-20])
file("AVIF", "a.avif", lambda: b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf" + bytes(64))
file("JPEG 2000", "a.jp2", lambda: b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(64))
file("JPEG XL named .png", "a.png", lambda: b"\xff\x0a" + bytes(64))
file("16-bit colour", "deep.png", lambda: png(8, 8, 16, 2, (b"\0" + bytes(48)) * 8))
file(
    "32-bit float TIFF",
    "float.tif",
    lambda: encoded(Image.fromarray(np.ones((8, 8), np.float32)), "TIFF"),
)
file("4-bit grey PNG", "four.png", lambda: png(8, 8, 4, 0, b"\0\x01\x23\x45\x67" * 8))
file("1-bit", "bit.png", lambda: encoded(grey().convert("1")))
file("palette", "palette.png", lambda: encoded(rgb().quantize(16)))
file("palette with transparency", "palette.png", transparent_palette)
file("RGBA", "rgba.png", lambda: encoded(Image.fromarray(levels(6, 8, 8, 4))))
file("LA", "la.png", lambda: encoded(Image.merge("LA", (grey(7), grey(8)))))
file("grey with a transparent level", "trns.png", with_transparent_level)
file("CMYK JPEG", "cmyk.jpg", lambda: encoded(rgb().convert("CMYK"), "JPEG"))
file("wrong number of channels", "rgb.png", lambda: encoded(rgb()))
file(
    "LAB TIFF",
    "lab.tif",
    lambda: encoded(Image.frombytes("LAB", (8, 8), bytes(192)), "TIFF"),
)
file("colour profile", "profile.png", with_profile)
file("rotated by EXIF", "rotated.jpg", lambda: with_exif(6))
file("wrong size", "wide.png", lambda: encoded(grey(9, 6, 12)))
file("several things at once", "both.png", lambda: deep_grey(12, 6))
file("animated GIF", "animated.gif", lambda: animated("GIF"))
file("animated WebP", "animated.webp", lambda: animated("WEBP"))
file(
    "TIFF of two pages",
    "pages.tif",
    lambda: encoded(grey(), "TIFF", save_all=True, append_images=[grey(10)]),
)
file("truncated JPEG", "cut.jpg", lambda: encoded(grey(), "JPEG")[:-20])
file("truncated PNG", "cut.png", lambda: encoded(grey())[:-30])
file("PNG with a wrong checksum", "sum.png", damaged_checksum)
file("truncated TIFF", "cut.tif", lambda: encoded(grey(), "TIFF")[:-5])
file("empty file", "empty.png", lambda: b"")
file("text named .png", "text.png", lambda: b"not an image\n")
file("PPM named .png", "ppm.png", lambda: encoded(rgb(), "PPM"))
file("decompression bomb", "bomb.png", lambda: png(60000, 60000, 8, 0, b""))
file("huge dimensions", "huge.png", lambda: png(10000, 8000, 8, 0, b""))
file("the same pixels twice", "twin.png", lambda: encoded(grey(0)))
file("JPEG named .png", "jpeg.png", lambda: encoded(grey(), "JPEG"))
file("upper-case extension", "LOUD.PNG", lambda: encoded(grey()))
file("Unicode name", "猫 é ñ.png", lambda: encoded(grey()))
file("file that is no image", "notes.txt", lambda: b"remember")


@kind("name with a line end")
def _line_end(root: Path) -> Awkward:
    (root / "dog" / "a\nb.png").write_bytes(encoded(grey()))
    return Awkward("dog/a\\nb.png")


@kind("name that is no text")
def _no_text(root: Path) -> Awkward:
    (root / "dog" / os.fsdecode(b"a\xffb.png")).write_bytes(encoded(grey()))
    return Awkward("dog/a\\udcffb.png")


@kind(".DS_Store and Thumbs.db")
def _ds_store(root: Path) -> Awkward:
    (root / "dog" / "Thumbs.db").write_bytes(b"x")
    (root / "dog" / ".DS_Store").write_bytes(b"\0\0\0\x01Bud1")
    return Awkward("dog/.DS_Store", images=1)


@kind("hidden folder")
def _hidden(root: Path) -> Awkward:
    (root / ".thumbnails").mkdir()
    (root / ".thumbnails" / "intact.png").write_bytes(encoded(grey()))
    return Awkward(".thumbnails", images=1)


@kind("__MACOSX folder")
def _macosx(root: Path) -> Awkward:
    (root / "__MACOSX").mkdir()
    (root / "__MACOSX" / "._intact.png").write_bytes(b"\0\x05\x16\x07")
    return Awkward("__MACOSX", images=1)


@kind("empty class folder")
def _empty(root: Path) -> Awkward:
    return Awkward("dog/", images=1)


@kind("image in no class folder")
def _loose(root: Path) -> Awkward:
    (root / "loose.png").write_bytes(encoded(grey()))
    return Awkward("loose.png")


@kind("nested folder")
def _nested(root: Path) -> Awkward:
    (root / "dog" / "more").mkdir()
    (root / "dog" / "more" / "a.png").write_bytes(encoded(grey()))
    return Awkward("dog/more/")


@kind("folder that is no class")
def _bird(root: Path) -> Awkward:
    (root / "bird").mkdir()
    (root / "bird" / "a.png").write_bytes(encoded(grey()))
    return Awkward("bird/")


@kind("link that leaves the folder")
def _leaving(root: Path) -> Awkward:
    outside = root.with_name("outside.png")
    outside.write_bytes(encoded(grey()))
    (root / "dog" / "link.png").symlink_to(outside)
    return Awkward("dog/link.png")


@kind("linked folder outside")
def _linked_folder(root: Path) -> Awkward:
    outside = root.with_name("outside")
    outside.mkdir()
    (root / "dog").rmdir()
    (root / "dog").symlink_to(outside)
    return Awkward("dog/")


@kind("link within the folder")
def _inside(root: Path) -> Awkward:
    (root / "dog" / "link.png").symlink_to(root / INTACT)
    return Awkward("dog/link.png")


@kind("link to nothing")
def _dangling(root: Path) -> Awkward:
    (root / "dog" / "link.png").symlink_to(root / "gone.png")
    return Awkward("dog/link.png")


@kind("loop of links")
def _loop(root: Path) -> Awkward:
    (root / "dog" / "link.png").symlink_to(root / "dog" / "link.png")
    return Awkward("dog/link.png")


@kind("named pipe")
def _pipe(root: Path) -> Awkward:
    os.mkfifo(root / "dog" / "pipe.png")
    return Awkward("dog/pipe.png")


@kind("unreadable file")
def _unreadable(root: Path) -> Awkward:
    path = root / "dog" / "unreadable.png"
    path.write_bytes(encoded(grey()))
    path.chmod(0)
    return Awkward("dog/unreadable.png")


HEAD = "path,label\ncat/intact.png,cat\n"
table("table: missing file", HEAD + "dog/gone.png,dog\n", "row 2, dog/gone.png")
table("table: unknown label", HEAD + "dog/b.png,bird\n", "row 2, dog/b.png")
table("table: empty label", HEAD + "dog/b.png,\n", "row 2, dog/b.png")
table("table: duplicate row", HEAD + "./cat/intact.png,cat\n", "row 2, ./cat/intact.png")
table(
    "table: group missing",
    "path,label,group\ncat/intact.png,cat,p1\ndog/b.png,dog,\n",
    "row 2, dog/b.png",
)
table(
    "table: group with a blank more",
    "path,label,group\ncat/intact.png,cat,p1\ndog/b.png,dog,p1 \n",
    "row 2, dog/b.png",
)
table(
    "table: group in another Unicode form",
    "path,label,group\ncat/intact.png,cat,Jos\u00e9\ndog/b.png,dog,Jose\u0301\n",
    "row 2, dog/b.png",
)
table(
    "table: group in another case",
    "path,label,group\ncat/intact.png,cat,p1\ndog/b.png,dog,P1\n",
    "row 2, dog/b.png",
)
table("table: image that it does not name", HEAD, "dog/b.png", images=1)


@kind("table: path that leaves")
def _path_that_leaves(root: Path) -> Awkward:
    root.with_name("outside.png").write_bytes(encoded(grey()))
    return Awkward("row 2, ../outside.png", table=HEAD + "../outside.png,dog\n")


@kind("table: other spelling of accents")
def _accents(root: Path) -> Awkward:
    (root / "dog" / "e\u0301.png").write_bytes(encoded(grey()))
    return Awkward("dog/\u00e9.png", table=HEAD + "dog/\u00e9.png,dog\n")


@kind("two folders of one name")
def _one_name(root: Path) -> Awkward:
    for spelling in ("caf\u00e9", "cafe\u0301"):
        (root / spelling).mkdir()
    return Awkward("caf\u00e9/")
