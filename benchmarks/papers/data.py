"""The data sets of tables and figures: where they come from, and what a steward would declare.

Real sets are read from a folder that the command line names; stand-ins are made on the spot. For a
test everything is small: `of_size` keeps the first images.

Shapes: N images, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import interpolate, pad

from analyst.evaluation.image_file import LabelledImages, load_images
from benchmarks.papers.codes import Autoencoder, CodeSize, decoded, encoded, learn_public
from benchmarks.papers.letters import letters
from benchmarks.papers.pictures import pictures
from curator.privacy.facts import DatasetFacts

Images = tuple[LabelledImages, LabelledImages]
"""The private part, and the public test part."""

_PUBLIC_EVERY = 5  # of the digits, as sklearn:digits-private leaves them out
_PADDED = 28
_INSIDE = 20  # as MNIST's digits lie in their frame
_COPIES = 8  # of USPS, so that it is about as large as MNIST


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSet:
    """Images with labels, and the public size that is declared of the private part.

    `decoder` makes pictures of what a generator made where that is codes.
    """

    private: LabelledImages
    test: LabelledImages
    nominal_size: int
    max_size: int
    max_level: int = 255
    decoder: Autoencoder | None = None

    @property
    def num_classes(self) -> int:
        """Labels are 0 and up; a curator's part may lack one, so the public images count, too."""
        return int(max(self.private.labels.max(), self.test.labels.max())) + 1

    def facts(self, name: str, batch: Mapping[str, Any]) -> DatasetFacts:
        """Return what a steward would declare.

        Args:
            name: Of the data set.
            batch: `sampling_rate`, `capacity`, `epsilon` and `delta`.
        """
        _, channels, height, width = self.private.images.shape
        return DatasetFacts.model_validate(
            {
                "name": name,
                "channels": channels,
                "height": height,
                "width": width,
                "max_level": self.max_level,
                "classes": [str(label) for label in range(self.num_classes)],
                "nominal_size": self.nominal_size,
                "max_size": self.max_size,
                "relation": "add-or-remove",
                "unit": "record",
                **batch,
            }
        )


def read_data(name: str, folder: Path | None, *, size: int | None = None) -> DataSet:
    """Return a data set.

    Args:
        name: One of `NAMES`.
        folder: Of the real ones' files.
        size: Keep so many private images, and declare that.

    Raises:
        SystemExit: If the name is not known or there is no file.
    """
    if name not in _READERS:
        message = f"no data set is called '{name}': known are {', '.join(NAMES)}"
        raise SystemExit(message)
    private, test = _READERS[name](folder)
    if size is not None:
        private = LabelledImages(private.images[:size], private.labels[:size])
    decoder = None
    if name in _CODES:
        decoder = learn_public(test, _CODES[name])
        private = encoded(decoder, private)
    count = len(private.labels)
    return DataSet(
        private=private,
        test=test,
        nominal_size=count,
        max_size=round(count * 7 / 6),
        max_level=16 if name == "digits" else 255,
        decoder=decoder,
    )


def visible(data: DataSet, images: LabelledImages) -> LabelledImages:
    """Return images with levels up to 255, as generated ones have."""
    if data.max_level == 255:
        return images
    levels = np.round(images.images.astype(np.float64) * 255 / data.max_level).astype(np.uint8)
    return LabelledImages(levels, images.labels)


def pictures_of(data: DataSet, made: LabelledImages) -> LabelledImages:
    """Return what a generator made as pictures."""
    return made if data.decoder is None else decoded(data.decoder, made)


def scaled(data: DataSet, images: LabelledImages) -> torch.Tensor:
    """Return pixels [N, C, H, W] in [-1, 1]."""
    return torch.from_numpy(images.images).float().mul_(2 / data.max_level).sub_(1)


def _file(file: str) -> Callable[[Path | None], Images]:
    def read(folder: Path | None) -> Images:
        path = _path(file, folder)
        return load_images(path, part="train"), load_images(path, part="test")

    return read


def _path(file: str, folder: Path | None) -> Path:
    """Return where a real set's file is.

    Raises:
        SystemExit: If there is none.
    """
    if folder is None or not (folder / file).exists():
        message = f"there is no {file}: give --data FOLDER with the arrays x_train, y_train, ..."
        raise SystemExit(message)
    return folder / file


def _digits(folder: Path | None) -> Images:
    del folder
    images, labels = load_digits(return_X_y=True)
    levels = images.reshape(-1, 1, 8, 8).astype(np.uint8)
    public = np.arange(len(levels)) % _PUBLIC_EVERY == 0
    return (
        LabelledImages(levels[~public], labels[~public].astype(np.int64)),
        LabelledImages(levels[public], labels[public].astype(np.int64)),
    )


def _padded_usps(folder: Path | None) -> Images:
    """Return USPS laid into MNIST's frame, the private part eight times: a public look-alike."""
    train, test = (_framed(images) for images in _file("usps.npz")(folder))
    often = np.tile(train.images, (_COPIES, 1, 1, 1)), np.tile(train.labels, _COPIES)
    return LabelledImages(*often), test


def _framed(data: LabelledImages) -> LabelledImages:
    images = torch.from_numpy(data.images).float()
    inside = interpolate(images, size=(_INSIDE, _INSIDE), mode="bilinear", antialias=True)
    edge = (_PADDED - _INSIDE) // 2
    framed = pad(inside, (edge,) * 4).round_().clamp_(0, 255).to(torch.uint8)
    return LabelledImages(framed.numpy(), data.labels)


_READERS: Mapping[str, Callable[[Path | None], Images]] = {
    "digits": _digits,
    "mnist": _file("mnist.npz"),
    "fashion": _file("fashion_mnist.npz"),
    "usps": _file("usps.npz"),
    "usps28": _padded_usps,
    "letters": lambda _: letters(),
    "pictures32": lambda _: pictures(32),
    "pictures64": lambda _: pictures(64),
    "codes64": lambda _: pictures(64),
    "codes64-small": lambda _: pictures(64),
}
NAMES = tuple(_READERS)
_CODES: Mapping[str, CodeSize] = {
    "codes64": CodeSize(),
    "codes64-small": CodeSize(channels=32, width=16, num_steps=400),
}
