"""DICOM files as scanners write them, with names and dates that must never be seen again."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from pydicom import Dataset
from pydicom.dataset import FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import (
    UID,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    SecondaryCaptureImageStorage,
    generate_uid,
)

_ENCAPSULATED = ("1.2.840.10008.1.2.4", "1.2.840.10008.1.2.5")
SECRETS = ("MUSTERFRAU^ERIKA", "19640812", "PID-4711", "Dr. Geheim", "SECRET HOSPITAL")


def values(bits: int = 12, seed: int = 3, side: int = 8) -> np.ndarray:
    """Return levels that use the whole range."""
    made = np.random.default_rng(seed).integers(0, 1 << bits, (side, side)).astype(np.uint16)
    made[0, :2] = 0, (1 << bits) - 1
    return made


def dicom(
    levels: np.ndarray,
    *,
    bits: int = 12,
    slope: tuple[float, float] | None = (1, 0),
    syntax: str = ExplicitVRLittleEndian,
    person: str | None = SECRETS[2],
    **changes: Any,
) -> bytes:
    """Return a file of one grey image.

    Args:
        levels: Stored values (height, width), whose type says how many bytes each has.
        bits: Stored of each.
        slope: Of rescaling, and the intercept.
        syntax: What the file says of its pixels' form.
        person: Whose it is.
        changes: Elements of the header by keyword.
    """
    one, meta = Dataset(), FileMetaDataset()
    meta.TransferSyntaxUID = UID(syntax)
    meta.MediaStorageSOPClassUID = one.SOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = one.SOPInstanceUID = generate_uid()
    one.file_meta = meta
    one.PatientName, one.PatientBirthDate = SECRETS[0], SECRETS[1]
    one.ReferringPhysicianName, one.InstitutionName = SECRETS[3], SECRETS[4]
    if person is not None:
        one.PatientID = person
    one.Rows, one.Columns = levels.shape[-2:]
    one.SamplesPerPixel, one.PhotometricInterpretation = 1, "MONOCHROME2"
    one.BitsAllocated = 8 * levels.dtype.itemsize
    one.BitsStored, one.HighBit = bits, bits - 1
    one.PixelRepresentation = int(levels.dtype.kind == "i")
    one.WindowCenter, one.WindowWidth = 17, 3  # never read
    if slope is not None:
        one.RescaleSlope, one.RescaleIntercept = slope
    one.PixelData = levels.astype(levels.dtype.newbyteorder("<")).tobytes()
    for name, value in changes.items():
        if value is None:
            delattr(one, name)
        else:
            setattr(one, name, value)
    stream = io.BytesIO()
    encapsulated = "PixelData" in one and syntax.startswith(_ENCAPSULATED)
    if encapsulated:
        one["PixelData"].is_undefined_length = True
        one.PixelData = b"\xfe\xff\x00\xe0\x00\x00\x00\x00\xfe\xff\x00\xe0\x04\x00\x00\x00abcd"
    one.save_as(
        stream,
        enforce_file_format=True,
        implicit_vr=syntax == ImplicitVRLittleEndian,
        little_endian=syntax != ExplicitVRBigEndian,
    )
    return stream.getvalue()


def table() -> Sequence:
    """Return a lookup table."""
    one = Dataset()
    one.LUTDescriptor = [4096, 0, 16]
    return Sequence([one])
