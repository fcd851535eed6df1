"""Open one image file: six formats by content, and HEIC and DICOM where an extra reads it.

Bounded in size, whole or not at all. Pillow's other readers are never tried. Nothing is converted
here.
"""

from __future__ import annotations

import io
import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import (
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from curator.sources.conversion import ImageRefused
from curator.sources.dicom import DICOM, DICOM_ENDINGS, is_dicom, read_dicom
from curator.sources.other_formats import HEIF, HEIF_ENDINGS, is_heif

ENDINGS = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg", ".jpe"),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    HEIF: HEIF_ENDINGS,
    DICOM: DICOM_ENDINGS,
}
MAX_MEGAPIXELS = 64
MAX_MEBIBYTES = 256
_STARTS = {
    b"\x89PNG\r\n\x1a\n": PngImagePlugin.PngImageFile.format,
    b"\xff\xd8\xff": JpegImagePlugin.JpegImageFile.format,
    b"BM": BmpImagePlugin.BmpImageFile.format,
    b"II*\0": TiffImagePlugin.TiffImageFile.format,
    b"MM\0*": TiffImagePlugin.TiffImageFile.format,
    b"GIF87a": GifImagePlugin.GifImageFile.format,
    b"GIF89a": GifImagePlugin.GifImageFile.format,
}
_TOO_MANY_PIXELS = f"more than {MAX_MEGAPIXELS} megapixels: save a smaller copy"
_ORIENTATION, _BITS_PER_SAMPLE, _PHOTOMETRIC, _WHITE_IS_ZERO = 0x0112, 258, 262, 0
_SIDEWAYS = range(5, 9)
_PNG_DEPTH_BYTE = 24
_BYTE_BITS = 8


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OpenedImage:
    """An image with what its header says.

    `orientation` is EXIF's, 1 for upright; `size` is the width and height of the upright picture.
    Of a DICOM image `image` has rescaled values, `has_slope` says whether the header says how, and
    `person` is the patient's identifier, if it was asked for.
    """

    image: Image.Image
    file_format: str
    mode: str
    depth: int
    size: tuple[int, int]
    orientation: int
    has_alpha: bool
    has_frames: bool
    has_profile: bool
    has_slope: bool = True
    person: str | None = field(default=None, repr=False)


def open_image(path: Path, *, with_person: bool = False) -> OpenedImage:
    """Open and decode the first frame of an image file.

    Args:
        path: The file.
        with_person: Whether to read who is on a DICOM image.

    Raises:
        ImageRefused: If the file is unreadable, empty, too large, damaged, or not of a known
            format.
    """
    data = _read(path)
    file_format = _format(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # remarks on metadata, which are not used
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            if file_format == DICOM:
                return _scan(data, with_person=with_person)
            return _decode(data, file_format)
        except ImageRefused:
            raise
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise ImageRefused(_TOO_MANY_PIXELS) from None
        except MemoryError:
            msg = "decoding it takes more memory than there is: save a smaller copy"
            raise ImageRefused(msg) from None
        except Exception:  # noqa: BLE001 - decoders raise anything on damaged files
            msg = f"a damaged or truncated {file_format} file: replace it with an intact copy"
            raise ImageRefused(msg) from None


def _read(path: Path) -> bytes:
    """Return a file's bytes.

    Raises:
        ImageRefused: If it cannot be read, is empty or too long.
    """
    try:
        with path.open("rb") as stream:
            length = os.fstat(stream.fileno()).st_size
            data = stream.read(min(length, MAX_MEBIBYTES << 20))  # a device, without end, has 0
    except PermissionError:
        msg = "permission denied: make it readable for the user who runs this command"
        raise ImageRefused(msg) from None
    except OSError as problem:
        msg = f"cannot be read ({problem.strerror}): replace it with an intact copy"
        raise ImageRefused(msg) from None
    if length > MAX_MEBIBYTES << 20:
        msg = f"longer than {MAX_MEBIBYTES} MiB: save a smaller copy"
        raise ImageRefused(msg)
    if not data:
        msg = "the file is empty: replace it with an intact copy, or remove it"
        raise ImageRefused(msg)
    return data


def _format(data: bytes) -> str:
    """Tell the format from a file's first bytes.

    Raises:
        ImageRefused: If it is none that is read here.
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return WebPImagePlugin.WebPImageFile.format
    for start, file_format in _STARTS.items():
        if data.startswith(start):
            return file_format
    if is_heif(data):
        return HEIF
    if is_dicom(data):
        return DICOM
    msg = f"not an image of a known format ({', '.join(ENDINGS)}), whatever its name: remove it"
    raise ImageRefused(msg)


def _scan(data: bytes, *, with_person: bool) -> OpenedImage:
    """Decode a DICOM image.

    Raises:
        ImageRefused: If it is of a kind that is not taken.
    """
    most = MAX_MEGAPIXELS * 1_000_000
    scan = read_dicom(data, most_pixels=most, with_person=with_person)
    image = Image.fromarray(scan.values.astype(np.float32))
    return OpenedImage(
        image=image,
        file_format=DICOM,
        mode=scan.mode,
        depth=max(scan.bits, _BYTE_BITS),
        size=image.size,
        orientation=1,
        has_alpha=False,
        has_frames=False,
        has_profile=False,
        has_slope=scan.has_slope,
        person=scan.person if with_person else None,
    )


def _decode(data: bytes, file_format: str) -> OpenedImage:
    """Decode, headers first.

    Raises:
        ImageRefused: If there are too many pixels.
    """
    if file_format == "PNG":
        with Image.open(io.BytesIO(data), formats=(file_format,)) as image:
            image.verify()  # every chunk's checksum, and that the end is there
    image = Image.open(io.BytesIO(data), formats=(file_format,))
    if image.width * image.height > MAX_MEGAPIXELS * 1_000_000:
        raise ImageRefused(_TOO_MANY_PIXELS)
    orientation = image.getexif().get(_ORIENTATION, 1)
    has_frames = getattr(image, "n_frames", 1) > 1
    mode, depth = image.mode, _depth(image, data, file_format)
    if depth > _BYTE_BITS and _has_black_above_white(image):
        msg = "a TIFF of more than 8 bits whose white is 0: save it with black as 0"
        raise ImageRefused(msg)
    image.load()  # turns a TIFF upright, and takes its tag off
    is_sideways = image.getexif().get(_ORIENTATION, 1) in _SIDEWAYS
    return OpenedImage(
        image=image,
        file_format=file_format,
        mode=mode,
        depth=depth,
        size=image.size[::-1] if is_sideways else image.size,
        orientation=orientation,
        has_alpha=image.has_transparency_data,
        has_frames=has_frames,
        has_profile="icc_profile" in image.info,
    )


def _has_black_above_white(image: ImageFile.ImageFile) -> bool:
    if not isinstance(image, TiffImagePlugin.TiffImageFile):
        return False
    return bool(image.tag_v2.get(_PHOTOMETRIC) == _WHITE_IS_ZERO)


def _depth(image: ImageFile.ImageFile, data: bytes, file_format: str) -> int:
    """Return the bits of one channel in the file, which Pillow may have cut to eight."""
    if file_format == "PNG":
        return data[_PNG_DEPTH_BYTE]
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        return int(max(image.tag_v2.get(_BITS_PER_SAMPLE, (1,))))
    if file_format == HEIF:
        return int(image.info["bit_depth"])
    return 1 if image.mode == "1" else _BYTE_BITS
