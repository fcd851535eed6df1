"""A synthetic set in three formats that other programs read: NPZ, image folder, IDX.

npz      one file: `images` uint8 [N, H, W] or [N, C, H, W], `labels` [N]
folder   OUT/CLASS/NUMBER.png, one folder per class, by name if it is known; grey or colour
idx      OUT/train-images-idx3-ubyte and OUT/train-labels-idx1-ubyte, as MNIST has them; images of
         several channels have four dimensions, [N, C, H, W], and idx4 in the name
"""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import assert_never

import numpy as np
from PIL import Image

from analyst.errors import ImageFileError
from analyst.evaluation.choices import Format
from analyst.evaluation.image_file import LabelledImages, save_images
from analyst.new_file import check_place
from analyst.os_errors import naming

_FOLDER_NAME = re.compile(r"[^\W_]([\w .+-]*[\w+-])?")


def export_images(
    data: LabelledImages, file_format: Format, out: Path, *, force: bool = False
) -> None:
    """Write `data` in one format.

    Args:
        data: Images and labels.
        file_format: Which format.
        out: A file for npz, else a directory that is new or empty.
        force: Whether a file that exists is replaced.

    Raises:
        ImageFileError: If the format cannot hold such images or labels, or `out` is in use.
    """
    match file_format:
        case "npz":
            save_images(out, data, force=force)
        case "folder":
            with _filled(out) as partial:
                _write_folder(data, partial)
        case "idx":
            with _filled(out) as partial:
                _write_idx(data, partial)
        case _:
            assert_never(file_format)


@contextmanager
def _filled(out: Path) -> Iterator[Path]:
    """Give a directory to fill, whose files move to `out` when all are there.

    Yields:
        A directory in `out`; whatever happens, it is gone afterwards.

    Raises:
        ImageFileError: If `out` holds something, or another program fills it.
    """
    check_place(out)
    partial, is_new = out / ".partial", not out.exists()
    with naming(out):
        if not is_new and (not out.is_dir() or any(out.iterdir())):
            message = f"{out} exists and is not an empty directory"
            raise ImageFileError(message, "Give the name of a new directory.")
        out.mkdir(parents=True, exist_ok=True)
        try:
            partial.mkdir()
        except FileExistsError:
            message = f"another program writes to {out}"
            raise ImageFileError(message, "Give the name of a new directory.") from None
        try:
            yield partial
            for path in partial.iterdir():
                path.rename(out / path.name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
            if is_new:
                with suppress(OSError):
                    out.rmdir()  # if nothing was moved


def _write_folder(data: LabelledImages, out: Path) -> None:
    """Write a PNG per image.

    Raises:
        ImageFileError: If the images are neither grey nor colour.
    """
    channels = data.images.shape[1]
    if channels not in {1, 3}:
        message = f"a PNG has 1 or 3 channels, not {channels}"
        raise ImageFileError(message, "Export as npz or idx.")
    digits, names = len(str(len(data.labels) - 1)), _folder_names(data)
    for index, (image, label) in enumerate(zip(data.images, data.labels, strict=True)):
        folder = out / names[int(label)]
        folder.mkdir(exist_ok=True)
        pixels = image[0] if channels == 1 else image.transpose(1, 2, 0)
        Image.fromarray(pixels).save(folder / f"{index:0{digits}d}.png")


def _folder_names(data: LabelledImages) -> dict[int, str]:
    """Return a folder for each label: the names of classes if all can be one, else numbers."""
    labels: list[int] = np.unique(data.labels).tolist()
    names = {label: data.name_of(label) for label in labels}
    differ = len({name.casefold() for name in names.values()}) == len(names)
    if data.classes and differ and all(map(_FOLDER_NAME.fullmatch, names.values())):
        return names
    width = len(str(labels[-1]))
    return {label: f"{label:0{width}d}" for label in labels}  # sorted by name is sorted by label


def _write_idx(data: LabelledImages, out: Path) -> None:
    """Write the two files.

    Raises:
        ImageFileError: If a label does not fit a byte.
    """
    if data.labels.min() < 0 or data.labels.max() > 255:
        message = "a label of an IDX file is a byte, 0 to 255"
        raise ImageFileError(message, "Export as npz or folder.")
    images = data.images[:, 0] if data.images.shape[1] == 1 else data.images
    _write_array(out / f"train-images-idx{images.ndim}-ubyte", images)
    _write_array(out / "train-labels-idx1-ubyte", data.labels.astype(np.uint8))


def _write_array(path: Path, array: np.ndarray) -> None:
    unsigned_byte = 8
    header = struct.pack(f">HBB{array.ndim}I", 0, unsigned_byte, array.ndim, *array.shape)
    path.write_bytes(header + np.ascontiguousarray(array).tobytes())
