"""Which images ever had a budget in this folder: keyed hashes of each data set, erased ones too.

They lie beside the key, in files for the owner only, and leave the folder in no answer, export,
certificate or log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, final

from curator.data.canaries import num_planted
from curator.data.errors import SourceError
from curator.data.images import LabelledImages
from curator.data.overlap import (
    Hashes,
    Overlap,
    SameImages,
    check_overlap,
    image_hashes,
    labelled_fingerprint,
    open_hashes,
    seal_hashes,
)
from curator.data.store import open_store
from curator.folder import CuratorFolder
from curator.identity.certificates import write_private
from curator.ledger.datasets_and_runs import DatasetState, DatasetStatus
from curator.ledger.entries import StatusSet, decode
from curator.ledger.ledger import Ledger

_ASKED: Final = '"asked":false'
_HASHED: Final = (
    "the stored images of '{}' were hashed, as no hashes of this folder's key were there (earlier "
    "versions kept none): copies and near-copies of them are noticed from now on"
)
_NOT_HASHED: Final = (
    "the stored images of '{}' could not be hashed, so that copies of them will not be noticed: "
    "look at the disk and at the folder's permissions"
)


def was_asked(ledger: Ledger, state: DatasetState) -> bool:
    """Return whether anything of a data set may have been released, as far as the ledger shows.

    Privacy:
        A run that was opened counts, whether or not it took a step, and so does whatever an older
        copy of the ledger may have forgotten.
    """
    first = next(iter(ledger.runs(dataset=state.registration.name)), None)
    return first is not None or not state.added.is_zero


def that_count(ledger: Ledger) -> tuple[DatasetState, ...]:
    """Return the data sets whose images are compared with new ones.

    Left out are those of which an entry says that they were erased before any run was opened.
    """
    states = ledger.datasets()
    erased = [state for state in states if state.status is DatasetStatus.ERASED]
    never = {state.registration.name for state in erased if not was_asked(ledger, state)}
    free = set[str]()
    if never:
        told = (decode(one.kind, one.body) for one in ledger.entries() if _ASKED in one.body)
        free = {one.dataset for one in told if isinstance(one, StatusSet) and not one.asked}
    return tuple(state for state in states if state.registration.name not in never & free)


def complete_hashes(folder: CuratorFolder, name: str) -> tuple[str, ...]:
    """Hash what an earlier version stored, unless it was hashed already or nothing is there.

    Args:
        folder: The curator's folder.
        name: A registered data set, erased or not.
    """
    if not folder.images(name).exists():
        return ()
    try:
        return (_HASHED.format(name),) if KnownImages(folder).complete(name) else ()
    except (OSError, SourceError):
        return (_NOT_HASHED.format(name),)


@final
class KnownImages:
    """The hashes of a folder's data sets."""

    def __init__(self, folder: CuratorFolder, *, writes: bool = True) -> None:
        """Take the folder.

        Args:
            folder: With its key.
            writes: Whether hashes that are missing are kept; without, they are made each time.
        """
        self._folder = folder
        self._writes = writes
        self._key = folder.fingerprint_key.read_bytes()

    def hashes(self, images: LabelledImages) -> Hashes:
        """Return the hashes of images.

        Args:
            images: As the source has them, before groups are limited.
        """
        return image_hashes(images.levels, self._key)

    def keep(self, name: str, hashes: Hashes) -> None:
        """Write the hashes of a data set."""
        path = self._folder.image_hashes(name)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        write_private(path, seal_hashes(hashes, self._key))

    def forget(self, name: str) -> None:
        """Remove the hashes of a data set that was not registered after all."""
        self._folder.image_hashes(name).unlink(missing_ok=True)

    def complete(self, name: str) -> bool:
        """Make the hashes of stored images, if they are not there.

        Raises:
            SourceError: If the stored images are damaged.
        """
        told: list[str] = []
        self._had(name, told)
        return bool(told)

    def compare(
        self,
        images: LabelledImages,
        hashes: Hashes,
        states: Iterable[DatasetState],
        most_shared: float,
    ) -> tuple[tuple[Overlap, ...], tuple[str, ...]]:
        """Compare new images with those of registered data sets.

        Args:
            images: The new ones.
            hashes: Of the new ones.
            states: As `that_count` returns them.
            most_shared: The part that may be shared.

        Returns:
            What is shared, and what else the steward has to know about the comparison.

        Raises:
            SourceError: If more is shared, or a registered data set cannot be compared with.
        """
        told: list[str] = []
        overlaps = check_overlap(hashes, self._known(images, states, told), most_shared)
        return overlaps, tuple(told)

    def _known(
        self, images: LabelledImages, states: Iterable[DatasetState], told: list[str]
    ) -> Iterator[tuple[str, Hashes]]:
        """Give the hashes of one data set after the other.

        Raises:
            SourceError: If those of one that is not erased cannot be had.
        """
        for state in states:
            name = state.registration.name
            if state.status is DatasetStatus.ERASED and self._read(name) is None:
                told.append(self._compared_whole(name, images))
                continue
            try:
                yield name, self._had(name, told)
            except SourceError as problem:
                msg = (
                    f"the new images cannot be compared with those of '{name}', whose hashes are "
                    f"not in this folder: {problem}, or copy {self._folder.image_hashes(name)} "
                    f"from the folder in which '{name}' was added, or erase '{name}'"
                )
                raise SourceError(msg) from None

    def _had(self, name: str, told: list[str]) -> Hashes:
        """Return the hashes of stored images, made now if they are not there.

        Raises:
            SourceError: If the stored images are damaged.
        """
        known = self._read(name)
        if known is None:
            known = self._hashed(self._folder.images(name))
            if self._writes:
                self.keep(name, known)
                told.append(_HASHED.format(name))
        return known

    def _hashed(self, folder: Path) -> Hashes:
        """Hash stored images; not canaries, which come from no source.

        Raises:
            SourceError: If something is damaged.
        """
        levels = open_store(folder).levels
        return image_hashes(levels, self._key, len(levels) - num_planted(folder))

    def _compared_whole(self, name: str, images: LabelledImages) -> str:
        """Compare with an erased data set that has no hashes.

        Raises:
            SameImages: If it had the same images with the same labels.
        """
        path = self._folder.fingerprints
        kept: dict[str, str] = json.loads(path.read_bytes()) if path.exists() else {}
        fingerprint = kept.get(name)
        if fingerprint is None:
            return f"'{name}' was erased elsewhere: copies of its images are not noticed here"
        if fingerprint == labelled_fingerprint(images, self._key):
            raise SameImages(name)
        return (
            f"'{name}' was erased and left no image hashes (earlier versions kept none): only a "
            "whole copy of it with the same labels is noticed"
        )

    def _read(self, name: str) -> Hashes | None:
        path = self._folder.image_hashes(name)
        return open_hashes(path.read_bytes(), self._key) if path.exists() else None
