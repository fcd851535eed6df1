"""One DICOM image: uncompressed, grey, of one frame, its levels rescaled as the header says.

Nothing else of a header is used, but the patient's identifier where it names groups: no window, no
text, no date. What is refused is refused by its kind, in words that repeat nothing of a header but
names that the standard gives.
"""

from __future__ import annotations

import io
import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from curator.sources.conversion import ImageRefused

if TYPE_CHECKING:
    from pydicom import Dataset

DICOM: Final = "DICOM"
DICOM_ENDINGS: Final = (".dcm", ".dicom", ".dic")
_MAGIC: Final = slice(128, 132)
_UNCOMPRESSED: Final = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1")
_GREYS: Final = ("MONOCHROME1", "MONOCHROME2")
_COLOURS: Final = (
    *("PALETTE COLOR", "RGB", "YBR_FULL", "YBR_FULL_422", "YBR_PARTIAL_420"),
    *("YBR_ICT", "YBR_RCT"),
)
_BYTES: Final = {8: 1, 16: 2}
_TAGS: Final = (
    *("Rows", "Columns", "NumberOfFrames", "SamplesPerPixel", "PhotometricInterpretation"),
    *("BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation", "PixelData"),
    *("RescaleSlope", "RescaleIntercept", "ModalityLUTSequence", "BurnedInAnnotation"),
)
_PERSON: Final = "PatientID"
_DEFLATED: Final = b"1.2.840.10008.1.2.1.99"
_BEGINNING: Final = 1 << 12  # where a file says its transfer syntax


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DicomImage:
    """What is taken of a file.

    `values` is float64 of shape (height, width), stored levels times slope plus intercept; `mode`
    is MONOCHROME1, where the least value is white, or MONOCHROME2. Without `has_slope` slope 1 and
    intercept 0 were assumed. `person` is the patient's identifier, if it was asked for.
    """

    values: npt.NDArray[np.float64]
    mode: str
    bits: int
    has_slope: bool
    person: str = field(default="", repr=False)


def is_dicom(data: bytes) -> bool:
    """Return whether a file says that it is one.

    Args:
        data: The whole file.
    """
    return data[_MAGIC] == b"DICM"


def read_dicom(data: bytes, *, most_pixels: int, with_person: bool) -> DicomImage:
    """Read an image.

    Args:
        data: The whole file.
        most_pixels: That it may have.
        with_person: Whether the patient's identifier is read.

    Raises:
        ImageRefused: If it is of a kind that is not taken, or its reader is not installed.
    """
    try:
        from pydicom import config, dcmread  # an extra
    except ImportError:
        msg = "a DICOM image: pip install 'weir-dp[dicom]', or save it as PNG with 16 bits"
        raise ImageRefused(msg) from None
    logger = logging.getLogger("pydicom")  # it would repeat what headers hold
    logger.disabled = True
    logger.setLevel(logging.CRITICAL + 1)  # of those below it, too
    if _DEFLATED in data[:_BEGINNING]:  # would be inflated as a whole before it can be refused
        raise ImageRefused(_no_decoder("Deflated Explicit VR Little Endian"))
    config.settings.reading_validation_mode = config.IGNORE
    tags = [*_TAGS, _PERSON] if with_person else [*_TAGS]
    header = dcmread(io.BytesIO(data), specific_tags=tags)
    _check_syntax(header)
    mode = _mode(header)
    rows, columns, bits = int(header.Rows), int(header.Columns), int(header.BitsStored)
    if rows * columns > most_pixels:
        msg = f"more than {most_pixels // 1_000_000} megapixels: save a smaller copy"
        raise ImageRefused(msg)
    slope, intercept = (_number(header, name) for name in ("RescaleSlope", "RescaleIntercept"))
    has_slope = slope is not None
    if has_slope != (intercept is not None):
        msg = "DICOM with one of RescaleSlope and RescaleIntercept: save it with both, or neither"
        raise ImageRefused(msg)
    levels = _levels(header, rows, columns, bits)
    return DicomImage(
        values=levels * np.float64(slope or 1.0) + np.float64(intercept or 0.0),
        mode=mode,
        bits=bits,
        has_slope=has_slope,
        person=str(header.get(_PERSON) or "") if with_person else "",
    )


def _check_syntax(header: Dataset) -> None:
    """Check that the pixels are there, and are not compressed.

    Raises:
        ImageRefused: If they are not.
    """
    syntax = header.file_meta.TransferSyntaxUID
    if syntax not in _UNCOMPRESSED:
        name = syntax.name if syntax.name != syntax else "a private transfer syntax"
        raise ImageRefused(_no_decoder(name))
    if "PixelData" not in header:
        msg = "a DICOM file without an image: remove it"
        raise ImageRefused(msg)


def _no_decoder(name: str) -> str:
    return (
        f"DICOM in {name}, for which there is no decoder here: save it uncompressed, such as "
        "with 'gdcmconv --raw'"
    )


def _mode(header: Dataset) -> str:
    """Return the photometric interpretation of a grey image of one frame.

    Raises:
        ImageRefused: If it is another kind of image.
    """
    mode = str(header.PhotometricInterpretation)
    if int(header.get("SamplesPerPixel", 1)) != 1 or mode not in _GREYS:
        colour = mode if mode in _COLOURS else "another colour space"
        msg = (
            f"DICOM in colour ({colour}), as copies of screens with words in them are: remove it, "
            "or save it as a grey image"
        )
        raise ImageRefused(msg)
    if int(header.get("NumberOfFrames") or 1) != 1:
        msg = "several frames in a DICOM file: save the one you mean as a file of its own"
        raise ImageRefused(msg)
    if header.get("BurnedInAnnotation") == "YES":
        msg = "words are burnt into its pixels, says its header, and may name a patient: remove it"
        raise ImageRefused(msg)
    if "ModalityLUTSequence" in header:
        msg = "DICOM with a modality lookup table, which is not applied: save it with a slope"
        raise ImageRefused(msg)
    return mode


def _levels(header: Dataset, rows: int, columns: int, bits: int) -> npt.NDArray[np.int64]:
    """Return stored levels; bits beyond those that are said to be stored are none of theirs.

    Raises:
        ImageRefused: If they are laid out in another way than is read here.
        ValueError: If there are fewer than the header says.
    """
    size, is_signed = _BYTES.get(int(header.BitsAllocated)), int(header.PixelRepresentation)
    if size is None or not 1 <= bits <= 8 * size or int(header.HighBit) != bits - 1:
        msg = "DICOM whose levels are not the low bits of 8 or 16: save it with 16 bits a pixel"
        raise ImageRefused(msg)
    stored = np.frombuffer(header.PixelData, dtype=f"<u{size}", count=rows * columns)
    levels = stored.astype(np.int64) & ((1 << bits) - 1)
    if is_signed:
        levels -= (levels >> (bits - 1)) << bits
    return levels.reshape(rows, columns)


def _number(header: Dataset, name: str) -> float | None:
    """Return a number of a header, None if it is not there.

    Raises:
        ImageRefused: If it is none, or several, or a slope of zero.
    """
    value = header.get(name)
    if value is None or value == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or (name == "RescaleSlope" and number == 0):
        msg = f"DICOM whose {name} is no number to rescale by: correct it, or remove the file"
        raise ImageRefused(msg)
    return number
