"""DICOM: values are windowed as typed in, kinds are refused by name, and no header is repeated."""

from __future__ import annotations

import logging
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ImplicitVRLittleEndian,
    RLELossless,
)

from curator.cli import ExitCode, main
from curator.data.store import open_store
from curator.folder import CuratorFolder
from curator.sources.conversion import Conversion, ImageRefused
from curator.sources.convert import convert
from curator.sources.decode_image import open_image
from tests.fakes.awkward import deep_tiff, encoded, grey
from tests.fakes.dicom import SECRETS, dicom, values


def converted(tmp_path: Path, data: bytes, **allowed: Any) -> np.ndarray:
    path = tmp_path / "one.dcm"
    path.write_bytes(data)
    levels: np.ndarray = convert(open_image(path), Conversion(**allowed)).levels[0]
    return levels


@pytest.mark.parametrize(("bits", "window"), [(12, (2048, 4096)), (16, (32768, 65536))])
def test_a_round_trip_is_exact(tmp_path: Path, bits: int, window: tuple[float, float]) -> None:
    """Every level of the whole range, twelve bits or sixteen."""
    every = np.arange(1 << bits, dtype=np.uint16).reshape(64, -1)
    found = converted(tmp_path, dicom(every, bits=bits), window=window, max_level=(1 << bits) - 1)
    assert found.dtype == np.uint16
    assert np.array_equal(found, every)


@pytest.mark.parametrize("white", [255, 4095])
def test_signed_values_are_rescaled_before_the_window(tmp_path: Path, white: int) -> None:
    """Against the formula of PS3.3, C.11.2.1.2.1, one value at a time."""
    stored = np.arange(-2048, 2048, 64, dtype=np.int16).reshape(8, 8)
    data = dicom(stored, slope=(0.5, -100), PixelRepresentation=1)
    found = converted(tmp_path, data, window=(40.0, 400.0), max_level=white)
    for level, of in zip(found.ravel().tolist(), stored.ravel().tolist(), strict=True):
        x = of * 0.5 - 100
        y = ((x - 39.5) / 399 + 0.5) * white
        y = 0 if x <= 39.5 - 199.5 else white if x > 39.5 + 199.5 else y
        assert level == round(y)
    assert len(np.unique(found)) > 10


def test_a_file_whose_header_does_not_name_types_is_read(tmp_path: Path) -> None:
    data = dicom(values(), syntax=ImplicitVRLittleEndian)
    found = converted(tmp_path, data, window=(2048, 4096), max_level=4095)
    assert np.array_equal(found, values())


def test_bits_that_are_not_stored_are_none_of_the_level(tmp_path: Path) -> None:
    overlay = values() | np.uint16(0x3000)
    found = converted(tmp_path, dicom(overlay), window=(2048, 4096), max_level=4095)
    assert np.array_equal(found, values())


def test_the_least_value_is_white_only_where_that_is_typed_in(tmp_path: Path) -> None:
    plain = converted(tmp_path, dicom(values()), window=(2000, 3000), max_level=4095)
    data = dicom(values(), PhotometricInterpretation="MONOCHROME1")
    found = converted(tmp_path, data, window=(2000, 3000), max_level=4095, monochrome1="invert")
    assert np.array_equal(found, 4095 - plain)
    upright = converted(
        tmp_path, dicom(values()), window=(2000, 3000), max_level=4095, monochrome1="invert"
    )
    assert np.array_equal(upright, plain)


@pytest.mark.parametrize("slope", [None, (1, 0)])
def test_a_slope_that_is_assumed_is_said(tmp_path: Path, slope: tuple[float, float] | None) -> None:
    path = tmp_path / "one.dcm"
    path.write_bytes(dicom(values(), slope=slope))
    made = convert(open_image(path), Conversion(window=(2048, 4096), max_level=4095))
    assert np.array_equal(made.levels[0], values())
    assert any("slope 1 and intercept 0 assumed" in one for one in made.done) == (slope is None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"syntax": RLELossless}, "DICOM in RLE Lossless, for which there is no decoder"),
        (
            {"syntax": DeflatedExplicitVRLittleEndian},
            "DICOM in Deflated Explicit VR Little Endian, for which",
        ),
        ({"slope": None, "RescaleIntercept": -1000}, "with one of RescaleSlope and"),
        ({"syntax": ExplicitVRBigEndian}, "DICOM in Explicit VR Big Endian"),
        ({"syntax": "1.2.826.0.1.3680043.99"}, "DICOM in a private transfer syntax"),
        ({"HighBit": 12}, "not the low bits of 8 or 16"),
        ({"BitsAllocated": 32}, "not the low bits of 8 or 16"),
        ({"BitsStored": 17, "HighBit": 16}, "not the low bits of 8 or 16"),
        ({"RescaleSlope": 0}, "RescaleSlope is no number to rescale by"),
        ({"Rows": 9}, "a damaged or truncated DICOM file"),
        ({"Rows": 65_535, "Columns": 65_535}, "more than 64 megapixels"),
        ({"PhotometricInterpretation": "SECRET"}, "DICOM in colour (another colour space)"),
        ({"Columns": None}, "a damaged or truncated DICOM file"),
    ],
)
def test_what_cannot_be_read_rightly_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ImageRefused) as caught:
        converted(tmp_path, dicom(values(), **changes), window=(2048, 4096))
    assert words in str(caught.value)
    assert not any(secret in str(caught.value) for secret in (*SECRETS, "SECRET"))


def test_without_its_reader_it_is_refused_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(ImageRefused, match=r"pip install 'weir-dp\[dicom\]'"):
        converted(tmp_path, dicom(values()), window=(2048, 4096))


@pytest.mark.parametrize("window", [(0.0, 1.0), (0.0, float("nan")), (float("inf"), 9.0)])
def test_a_window_that_is_none_is_refused(window: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="--window needs a centre and a width above 1"):
        Conversion(window=window)


def test_deep_files_are_kept_up_to_white_and_others_refused(tmp_path: Path) -> None:
    tiff = deep_tiff(values(), 1)
    kept = converted(tmp_path, tiff, sixteen_bit="keep", max_level=4095)
    assert np.array_equal(kept, values())
    assert kept.dtype == np.uint16
    windowed = converted(tmp_path, tiff, window=(2048, 4096), max_level=255)
    assert np.array_equal(windowed, np.rint(values() * (255 / 4095)))
    with pytest.raises(ImageRefused, match="a level of 4095, declared is at most 4094"):
        converted(tmp_path, tiff, sixteen_bit="keep", max_level=4094)
    with pytest.raises(ImageRefused, match="8 bits, where levels of 16 are declared"):
        converted(tmp_path, encoded(grey()), sixteen_bit="keep", max_level=4095)
    for way in ({"sixteen_bit": "keep"}, {"sixteen_bit": "scale"}):
        with pytest.raises(ImageRefused, match="levels below 0"):
            converted(tmp_path, deep_tiff(values().astype(np.int16) - 9, 1), **way)


@pytest.mark.parametrize("resize", ["fit", "crop"])
def test_deep_files_are_resized_within_their_levels(tmp_path: Path, resize: str) -> None:
    allowed: dict[str, Any] = {"sixteen_bit": "keep", "max_level": 4095, "resize": resize}
    found = converted(tmp_path, deep_tiff(values(), 1), shape=(1, 6, 12), **allowed)
    assert found.shape == (6, 12)
    assert found.max() <= 4095
    assert (found[:, 0] == 0).all() == (resize == "fit")
    flat = deep_tiff(np.full((8, 8), 4094, np.uint16), 1)
    middle = converted(tmp_path, flat, shape=(1, 6, 12), **allowed)[:, 4:8]
    assert (middle == 4094).all()


def test_grey_becomes_three_equal_channels_where_that_is_typed_in(tmp_path: Path) -> None:
    path = tmp_path / "one.tif"
    path.write_bytes(deep_tiff(values(), 1))
    wanted = Conversion(shape=(3, 8, 8), colour="rgb", sixteen_bit="keep", max_level=4095)
    assert np.array_equal(convert(open_image(path), wanted).levels, np.stack([values()] * 3))


ADD = shlex.split(
    "--epsilon 10 --delta 1e-5 --adjacency add-or-remove-one-group --max-records-per-group 2 "
    "--classes sick,well --image-shape 1x8x8 --nominal-size 100 --max-size 200 "
    "--sampling-rate 0.1 --capacity 64 --max-level 4095 --window 2048,4096"
)


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """Two people with two images each, and one with three."""
    root = tmp_path / "scans"
    for number, person in enumerate(("PID-4711", "PID-2", "PID-4711", "PID-3", "PID-3", "PID-3")):
        path = root / ("sick", "well")[number % 2] / f"{number}.dcm"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dicom(values(seed=number), person=person))
    return root


def add(scans: Path, *more: str) -> tuple[int, Path]:
    folder = scans.with_name("weir")
    assert main(["init", str(folder)]) == ExitCode.OK
    words = ["dataset", "add", "scans", str(scans), "--dir", str(folder), *ADD, *more]
    return main(words), folder


def test_nothing_of_a_header_is_told_logged_or_stored(
    scans: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bad = dicom(values(), RescaleSlope=0)
    code, folder = add(scans, "--groups-from", "PatientID", "--json")
    assert code == ExitCode.OK
    (scans / "well" / "bad.dcm").write_bytes(bad)
    (scans / "well" / "cut.dcm").write_bytes(bad[:-9])
    for way in ("none", "PatientID"):
        words = ["--window", "2048,4096", "--groups-from", way, "--json"]
        assert main(["dataset", "check", str(scans), *words]) == ExitCode.FAILED
    told = "".join(capfd.readouterr()) + caplog.text
    assert "bad.dcm" in told
    kept = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    for secret in (*SECRETS, "PID-2", "PID-3"):
        assert secret not in told
        assert secret.encode() not in kept
    stored = open_store(CuratorFolder(folder).images("scans"))
    assert stored.groups is not None
    assert stored.max_per_group == 2
    assert sorted(np.bincount(stored.groups).tolist()) == [1, 2, 2]
    assert {tuple(row) for row in stored.levels[np.arange(5)].tolist()} == {
        tuple(values(seed=number).ravel().tolist()) for number in range(5)
    }


def refused(scans: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    words = ["dataset", "check", str(scans), "--window", "2048,4096", *more]
    assert main(words) == ExitCode.FAILED
    return "".join(capsys.readouterr())


def test_patients_that_only_look_different_are_refused_without_their_names(
    scans: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (scans / "sick" / "a.dcm").write_bytes(dicom(values(seed=10), person="PID -3"))
    (scans / "sick" / "b.dcm").write_bytes(dicom(values(seed=11), person=""))
    (scans / "sick" / "c.dcm").write_bytes(dicom(values(seed=12), person=None))
    (scans / "sick" / "d.dcm").write_bytes(dicom(values(seed=13), person="pid-3"))
    (scans / "sick" / "e.png").write_bytes(encoded(grey()))
    told = refused(scans, capsys, "--groups-from", "PatientID")
    assert "sick/b.dcm: PatientID: the group is empty" in told
    assert "sick/c.dcm: PatientID: the group is empty" in told
    assert "sick/e.png: no DICOM file, so it names no patient" in told
    assert "differ in case only" in told
    assert "PID" not in told.replace("PatientID", "")
    assert "pid-3" not in told


def test_groups_are_named_in_one_way(scans: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = scans.with_name("labels.csv")
    table.write_text("path,label,group\nsick/0.dcm,sick,7\n")
    told = refused(scans, capsys, "--groups-from", "PatientID", "--labels", str(table))
    assert "groups are named twice, by --labels and --groups-from: leave one out" in told
    np.savez(scans.with_name("some.npz"), images=np.zeros((2, 8, 8), np.uint8), labels=[0, 1])
    told = refused(scans.with_name("some.npz"), capsys)
    assert "not a folder of images" in told


def test_groups_that_are_not_declared_are_refused(
    scans: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = add(scans)
    assert code == ExitCode.FAILED
    assert "there are no groups; they are named by --groups-key, by --groups-from" in (
        capsys.readouterr().err
    )


def test_a_public_test_set_is_written_with_eight_bits(scans: Path) -> None:
    out = scans.with_name("test.npz")
    words = ["--classes", "sick,well", "--image-shape", "1x8x8", "--out", str(out)]
    deep = ["--max-level", "4095", "--window", "2048,4096"]
    assert main(["dataset", "convert", str(scans), *words, *deep]) == ExitCode.OK
    with np.load(out) as file:
        assert file["images"].dtype == np.uint8
        expected = [np.rint(values(seed=number) * (255 / 4095)) for number in (0, 2, 4, 1, 3, 5)]
        assert np.array_equal(file["images"][:, 0], expected)


def test_scaling_to_8_bits_and_deep_levels_exclude_each_other() -> None:
    with pytest.raises(ValueError, match=r"scale makes 8 bits: .* keep, or --window"):
        Conversion(sixteen_bit="scale", max_level=4095)
    assert Conversion(sixteen_bit="scale", max_level=255).white == 255
