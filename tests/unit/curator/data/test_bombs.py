"""A small file that unpacks to gigabytes is refused in words before it is unpacked."""

from __future__ import annotations

import gzip
import io
import random
import resource
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from analyst.errors import ImageFileError
from analyst.evaluation.image_file import load_images
from curator.data.errors import SourceError
from curator.sources.array_readers import read_source
from curator.sources.bounds import Bounds
from curator.sources.conversion import Conversion, ImageRefused
from curator.sources.decode_image import open_image
from curator.sources.label_table import list_labelled
from curator.sources.options import SourceOptions
from tests.fakes.spoilt import problem

MIB = 1 << 20
DECLARED = Bounds.of(SourceOptions(conversion=Conversion(shape=(1, 8, 8)), max_images=9))
SOME_MEMORY = """
import resource, sys
from pathlib import Path
from curator.sources.idx import read_idx
from curator.sources.array_readers import read_source
from curator.data.errors import SourceError
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
try:
    read_source(sys.argv[1])
except SourceError as error:
    print(error)
"""


def zeros(path: Path, head: bytes, mebibytes: int) -> None:
    """Write a gzip of zeros behind a header, without ever having them in memory."""
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(head)
        for _ in range(mebibytes):
            stream.write(bytes(MIB))


def idx_head(*shape: int) -> bytes:
    return struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)


def npz(path: Path, images: bytes, *, mebibytes: int = 0) -> None:
    """Write an NPZ file whose images are what is given, then zeros."""
    labels = io.BytesIO()
    np.save(labels, np.zeros(4, dtype=np.int64))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("labels.npy", labels.getvalue())
        with archive.open("images.npy", "w", force_zip64=True) as stream:
            stream.write(images)
            for _ in range(mebibytes):
                stream.write(bytes(MIB))


def npy_head(shape: str, dtype: str = "|u1") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize("shape", [(4, 8, 8), (1 << 14, 512, 512), (0xFFFFFFFF,) * 3])
def test_a_gzip_is_unpacked_no_further_than_it_declares(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    images, labels = tmp_path / "images.gz", tmp_path / "labels.gz"
    zeros(images, idx_head(*shape), 70)
    zeros(labels, idx_head(4) + bytes(4), 0)
    words = "holds more" if shape == (4, 8, 8) else "images.gz would unpack to"
    with pytest.raises(SourceError, match=words):
        read_source(f"{images},{labels}", bounds=DECLARED)


def test_labels_are_bounded_too(tmp_path: Path) -> None:
    images, labels = tmp_path / "images.gz", tmp_path / "labels.gz"
    zeros(images, idx_head(4, 8, 8) + bytes(256), 0)
    zeros(labels, idx_head(70 * MIB), 70)
    with pytest.raises(SourceError, match=r"labels\.gz would unpack to 70 MiB"):
        read_source(f"{images},{labels}", bounds=DECLARED)


@pytest.mark.parametrize("name", ["images.gz", "set.npz"])
def test_what_this_machine_has_no_room_for_is_said(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "set.npz":
        npz(path, npy_head("(4, 1024, 1024, 1024)"), mebibytes=150)
        source = str(path)
    else:
        zeros(path, idx_head(150, 1024, 1024), 150)
        source = f"{path},{path}"
    done = subprocess.run(
        [sys.executable, "-c", SOME_MEMORY, source],
        check=True, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert f"{path}: there is not enough memory to read it" in done.stdout


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (npy_head("(1048576, 64, 64)"), "'images' would unpack to 4 GiB, and at most 64 MiB"),
        (npy_head("(4, 8, 8)", "<U100000000"), "would unpack to"),
        (npy_head("(4, 8, 8)", "|O"), "not an NPZ file of plain arrays"),
        (npy_head("(-4, 8, 8)"), "not an NPZ file of plain arrays"),
        (b"\x93NUMPY\x02\x00" + b"\xff" * 4, "not an NPZ file of plain arrays"),
        (b"\x93NUMPY\x09\x00", "not an NPZ file of plain arrays"),
        (b"no array", "not an NPZ file of plain arrays"),
    ],
)
def test_an_array_s_header_is_read_first(tmp_path: Path, head: bytes, words: str) -> None:
    npz(tmp_path / "set.npz", head, mebibytes=1)
    with pytest.raises(SourceError, match=words):
        read_source(str(tmp_path / "set.npz"), bounds=DECLARED)
    with pytest.raises(ImageFileError, match=r"cannot read images from|labels are"):
        load_images(tmp_path / "set.npz")


def test_the_analyst_bounds_an_array_too(tmp_path: Path) -> None:
    npz(tmp_path / "set.npz", npy_head("(1048577, 64, 64)"))
    with pytest.raises(ImageFileError, match=r"'images' would unpack to 4\.0 GiB"):
        load_images(tmp_path / "set.npz")


def test_any_damage_of_an_npz_file_is_said(tmp_path: Path) -> None:
    path, chance = tmp_path / "set.npz", random.Random(7)  # noqa: S311 - public bytes
    images = np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8)
    np.savez_compressed(path, images=images, labels=np.arange(4))
    whole, refused = path.read_bytes(), 0
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(
            content[: chance.randint(1, len(content))] if chance.random() < 0.3 else content
        )
        refused += problem(SourceError, lambda: read_source(str(path))) is not None
        problem(ImageFileError, lambda: load_images(path))
    assert refused > 100


def png(width: int, height: int) -> bytes:
    """Return a PNG of zeros, one bit a pixel: a few bytes for each megapixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    rows = zlib.compress(bytes((width + 7) // 8 + 1) * height, 9)
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_a_picture_of_gigapixels_is_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(40_000, 25_000))
    assert path.stat().st_size < MIB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ImageRefused, match="more than 64 megapixels"):
        open_image(path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 << 10  # KiB; its pixels are a GiB


@pytest.mark.parametrize("name", ["l.csv", "l.parquet"])
def test_a_label_table_without_end_is_refused(tmp_path: Path, name: str) -> None:
    table = tmp_path / name
    table.symlink_to("/dev/zero")
    with pytest.raises(SourceError, match=r"l\.(csv|parquet)"):
        list_labelled(tmp_path, SourceOptions(), table)
