"""Images that Pillow's six readers do not take, told by content: read by an extra, or named.

HEIC, as telephones write it, is read by pillow-heif where that is installed. The others are
images too: they are refused as what they are, and never left out as no image.
"""

from __future__ import annotations

from typing import Final

from curator.sources.conversion import ImageRefused

HEIF: Final = "HEIF"
HEIF_ENDINGS: Final = (".heic", ".heif", ".hif")
UNREAD_ENDINGS: Final = (
    *(".avif", ".avifs", ".jp2", ".j2k", ".jpf", ".jpx", ".jpc", ".jxl"),
    *(".heics", ".heifs"),
)
_HEIF_BRANDS: Final = frozenset(
    {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
)
_AVIF_BRANDS: Final = frozenset({b"avif", b"avis"})
_UNREAD: Final = {
    b"\x00\x00\x00\x0cjP  \r\n\x87\n": "a JPEG 2000 image",
    b"\xff\x4f\xff\x51": "a JPEG 2000 image",
    b"\x00\x00\x00\x0cJXL \r\n\x87\n": "a JPEG XL image",
    b"\xff\x0a": "a JPEG XL image",
}
_LONGEST_HEAD: Final = 1 << 12


def is_heif(data: bytes) -> bool:
    """Return whether a file is a HEIC photograph that can be read here.

    Args:
        data: The whole file.

    Raises:
        ImageRefused: If it is an image that is not read here; the text says of which kind.
    """
    brands = _brands(data)
    if brands & _AVIF_BRANDS:
        _refuse("an AVIF image")
    if brands & _HEIF_BRANDS:
        _register()
        return True
    for start, kind in _UNREAD.items():
        if data.startswith(start):
            _refuse(kind)
    return False


def _brands(data: bytes) -> set[bytes]:
    """Return the brands of an ISO base media file, which say what is in it."""
    if data[4:8] != b"ftyp":
        return set()
    end = min(int.from_bytes(data[:4], "big"), _LONGEST_HEAD, len(data))
    return {data[8:12], *(data[place : place + 4] for place in range(16, end, 4))}


def _register() -> None:
    """Make the extra's reader known to Pillow.

    Raises:
        ImageRefused: If it is not installed.
    """
    try:
        from pillow_heif import register_heif_opener  # an extra
    except ImportError:
        msg = "a HEIC photograph: pip install 'weir-dp[heif]', or save it as PNG"
        raise ImageRefused(msg) from None
    register_heif_opener()


def _refuse(kind: str) -> None:
    """Refuse an image by its kind.

    Raises:
        ImageRefused: Always.
    """
    msg = f"{kind}, which is not read: save it as PNG"
    raise ImageRefused(msg)
