"""Turn what a steward types as SOURCE into labelled images.

PATH.npz                   arrays images/labels, or x_train/y_train, or --images-key/--labels-key
IMAGES.idx[.gz],LABELS...  two IDX files, separated by a comma
DIRECTORY                  with MNIST's four file names: the training pair is taken; folders of
                           image files are read by `curator.sources.ingest`
sklearn:digits             scikit-learn's 1,797 handwritten digits
sklearn:digits-private     the same without every fifth record, which is declared public
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from curator.data.errors import SourceError
from curator.data.images import LabelledImages, labelled_images
from curator.sources.bounds import Bounds
from curator.sources.idx import read_idx
from curator.sources.npz import NpzFile

_NPZ_KEYS = (("images", "labels"), ("x_train", "y_train"))
_PUBLIC_EVERY = 5


def read_source(
    source: str,
    *,
    keys: tuple[str, str] | None = None,
    groups_key: str | None = None,
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
) -> LabelledImages:
    """Read a source.

    Args:
        source: As described in the module's docstring.
        keys: Names of the image and label arrays of an NPZ file; by default those above.
        groups_key: Name of the array of an NPZ file that says who each image belongs to.
        bounds: What it may unpack to.

    Returns:
        Every image with its label, and its group if a key is given.

    Raises:
        SourceError: If the source cannot be read; the text names the file and what is wrong.
    """
    if groups_key is not None and Path(source).suffix != ".npz":
        msg = f"{source}: groups are read from an .npz file only"
        raise SourceError(msg)
    if source.startswith("sklearn:"):
        return _read_sklearn(source)
    if "," in source:
        images, labels = source.split(",", 1)
        return _read_idx_pair(source, Path(images), Path(labels), bounds)
    path = Path(source)
    if path.is_dir():
        return _read_idx_directory(path, bounds)
    if path.suffix == ".npz":
        return _read_npz(path, keys, groups_key, bounds)
    if not path.exists():
        msg = f"{source}: there is no such file or source"
        raise SourceError(msg)
    msg = (
        f"{source}: give a folder of images, an .npz file, a pair IMAGES,LABELS of IDX files, or a "
        "folder with them"
    )
    raise SourceError(msg)


def _read_idx_pair(source: str, images: Path, labels: Path, bounds: Bounds) -> LabelledImages:
    return labelled_images(source, read_idx(images, bounds.images), read_idx(labels, bounds.labels))


def _read_idx_directory(folder: Path, bounds: Bounds) -> LabelledImages:
    """Read MNIST's training pair from a folder.

    Raises:
        SourceError: If the files are not there.
    """
    pair = _idx_pair(folder)
    if pair is None:
        msg = f"{folder}: holds no train-images-idx3-ubyte and train-labels-idx1-ubyte (or .gz)"
        raise SourceError(msg)
    images, labels = pair
    return _read_idx_pair(str(folder), images, labels, bounds)


def holds_idx(folder: Path) -> bool:
    """Return whether a folder holds MNIST's training pair."""
    return _idx_pair(folder) is not None


def _idx_pair(folder: Path) -> tuple[Path, Path] | None:
    for dot in (".", "-"):
        for ending in ("", ".gz"):
            images = folder / f"train-images{dot}idx3-ubyte{ending}"
            labels = folder / f"train-labels{dot}idx1-ubyte{ending}"
            if images.exists() and labels.exists():
                return images, labels
    return None


def _read_npz(
    path: Path, keys: tuple[str, str] | None, groups_key: str | None, bounds: Bounds
) -> LabelledImages:
    """Read the arrays of an NPZ file; pickled objects are refused."""
    with NpzFile.opened(path) as archive:
        chosen = _chosen_keys(path, archive.names, keys)
        _check_groups_key(path, archive.names, groups_key)
        groups = None if groups_key is None else archive.array(groups_key, bounds.groups)
        images = archive.array(chosen[0], bounds.images)
        return labelled_images(str(path), images, archive.array(chosen[1], bounds.labels), groups)


def _chosen_keys(path: Path, names: set[str], keys: tuple[str, str] | None) -> tuple[str, str]:
    """Return the names of the image and label arrays.

    Raises:
        SourceError: If they are not in the file.
    """
    candidates = (keys,) if keys else _NPZ_KEYS
    for pair in candidates:
        if names >= set(pair):
            return pair
    wanted = " or ".join("/".join(pair) for pair in candidates)
    msg = f"{path}: holds no arrays {wanted}; name them with --images-key, --labels-key"
    raise SourceError(msg)


def _check_groups_key(path: Path, names: set[str], groups_key: str | None) -> None:
    """Check that the named array is there.

    Raises:
        SourceError: If it is not in the file.
    """
    if groups_key is not None and groups_key not in names:
        msg = f"{path}: holds no array '{groups_key}'; name the groups with --groups-key"
        raise SourceError(msg)


def _read_sklearn(source: str) -> LabelledImages:
    """Read scikit-learn's bundled digits.

    Raises:
        SourceError: If the name is not known.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8).astype(np.uint8)
    if source == "sklearn:digits":
        return labelled_images(source, images, labels)
    if source == "sklearn:digits-private":
        private = np.arange(len(images)) % _PUBLIC_EVERY != 0
        return labelled_images(source, images[private], labels[private])
    msg = f"{source}: known are sklearn:digits and sklearn:digits-private"
    raise SourceError(msg)
