"""Checkpoints that survive a power cut: safetensors for numbers, JSON for the rest, never pickle.

A checkpoint is two files. The tensors are written first, then the manifest that names their
SHA-256; both go to a temporary file, are synced and renamed. Only the manifest makes a checkpoint
exist, so a process killed at any moment leaves the previous one whole. The ledger, not a
checkpoint, knows which step of a run is next. Its owner may have edited a manifest, or copied a
checkpoint in part, so what is read is checked.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar, final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from analyst.documents import STRICT, DocumentProblem, parsed, read_bounded
from analyst.errors import CheckpointError as CheckpointError
from analyst.generators.generator import ImageShape
from analyst.new_file import write_file
from analyst.os_errors import explain_os_error

_MOST_BYTES = 1 << 24
_MOST_NUMBERS: Final = 1 << 26  # of one image
_MOST: Final = (1 << 63) - 1
_LONGEST_ID: Final = 1 << 14  # of several curators all ids are joined
_STEM = "checkpoint-"
_Read = TypeVar("_Read")


class _Dataset(BaseModel):
    """The public facts that are read again; a classifier has no classes of its target."""

    model_config = STRICT

    name: str
    channels: Annotated[int, Field(ge=1)]
    height: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=1)]
    classes: Annotated[list[str], Field(min_length=1)] | None = None
    source_sha256: str | None = None
    teacher_run: str | None = None

    @model_validator(mode="after")
    def _is_of_images(self) -> Self:
        if math.prod((self.channels, self.height, self.width)) > _MOST_NUMBERS:
            msg = "no image has so many pixels"
            raise ValueError(msg)
        return self


def _facts(value: dict[str, Any]) -> dict[str, Any]:
    _Dataset.model_validate(value)
    return value


class Manifest(BaseModel):
    """What a checkpoint says of itself."""

    model_config = STRICT | ConfigDict(frozen=True)

    run_id: Annotated[str, Field(min_length=1, max_length=_LONGEST_ID)]
    num_updates: Annotated[int, Field(ge=0, le=_MOST)]
    next_step: Annotated[int, Field(ge=1, le=_MOST)]  # as the ledger said; it may be ahead by now
    num_steps: Annotated[int, Field(ge=1, le=_MOST)]
    finished: bool
    dataset: Annotated[dict[str, Any], AfterValidator(_facts)]
    recipe: dict[str, Any]


class _File(Manifest):
    """A manifest, with the name and the digest of its tensors."""

    format: Literal[1]
    tensors: Annotated[str, Field(pattern=r"^checkpoint-[0-9]{10,}-[0-9a-f]{8}\.safetensors$")]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

    @property
    def manifest(self) -> Manifest:
        return Manifest(**{name: getattr(self, name) for name in Manifest.model_fields})


_FILE: Final = TypeAdapter(_File)


@final
class CheckpointStore:
    """The checkpoints of one output directory; keeps the newest `keep`."""

    def __init__(self, directory: Path, *, keep: int = 2) -> None:
        """Use `directory`, which is made when the first checkpoint is written."""
        self.directory = directory
        self._keep = keep

    def save(self, tensors: dict[str, Tensor], manifest: Manifest) -> Path:
        """Write a checkpoint and drop the ones beyond `keep`.

        Returns:
            The manifest's path.
        """
        payload = save(tensors)
        digest = hashlib.sha256(payload).hexdigest()
        stem = f"{_STEM}{manifest.num_updates:010d}"
        # a name that depends on the content never overwrites the tensors of an older manifest
        tensor_file = f"{stem}-{digest[:8]}.safetensors"
        write_file(self.directory / tensor_file, payload, replace=True)
        head = {"format": 1, "tensors": tensor_file, "sha256": digest}
        content = json.dumps(head | manifest.model_dump(), indent=1)
        path = self.directory / f"{stem}.json"
        write_file(path, content.encode() + b"\n", replace=True)
        self._drop_old()
        return path

    def exists(self) -> bool:
        """Return whether there is a checkpoint to load."""
        return bool(self._manifests())

    def kept(self) -> list[int]:
        """Return after how many updates the checkpoints were written, oldest first."""
        return [int(path.stem.removeprefix(_STEM)) for path in self._manifests()]

    def load(self, num_updates: int | None = None) -> tuple[dict[str, Tensor], Manifest]:
        """Read and verify the checkpoint after so many updates, by default the newest.

        Raises:
            CheckpointError: If there is none, or it is damaged.
        """
        return self._chosen(num_updates, _read)

    def manifest(self) -> Manifest:
        """Read what the newest checkpoint says of itself, without its tensors.

        Raises:
            CheckpointError: If there is none, or the newest says nothing that can be read.
        """
        return self._chosen(None, lambda path: _read_file(path).manifest)

    def _chosen(self, num_updates: int | None, read: Callable[[Path], _Read]) -> _Read:
        manifests = self._manifests()
        if not manifests:
            message = f"there is no checkpoint in {self.directory}"
            raise CheckpointError(message, "Check the run's folder, or start without --resume.")
        if num_updates is not None:
            kept = self.kept()
            if num_updates not in kept:
                message = f"no checkpoint after {num_updates:,} updates is in {self.directory}"
                known = ", ".join(map(str, kept))
                raise CheckpointError(message, f"Kept are {known}; see session.keep_checkpoints.")
            manifests = manifests[: kept.index(num_updates) + 1]
        chosen = manifests[-1]
        try:
            return read(chosen)
        except OSError as error:
            raise CheckpointError(*explain_os_error(error, str(chosen))) from None
        except (ValueError, KeyError, TypeError, SafetensorError) as error:
            message = f"checkpoint {chosen} is damaged: {error}"
            raise CheckpointError(message, _remedy(chosen, manifests[:-1])) from None

    def _manifests(self) -> list[Path]:
        return sorted(self.directory.glob(f"{_STEM}*.json"))

    def _drop_old(self) -> None:
        manifests = self._manifests()
        for path in manifests[: -self._keep]:
            path.unlink()
        stems = tuple(path.stem for path in manifests[-self._keep :])
        newest = [_read_file(path).tensors for path in manifests[-1:]]
        for path in self.directory.glob(".*.partial"):  # of a trainer that was killed
            path.unlink()
        for path in self.directory.glob(f"{_STEM}*.safetensors"):
            old = not path.name.startswith(stems)
            replaced = path.name.startswith(stems[-1]) and path.name not in newest
            if old or replaced:
                path.unlink()


def checkpoint_store(out: Path, *, keep: int = 2) -> CheckpointStore:
    """Return the checkpoints of an output directory; a new one drops those beyond `keep`."""
    return CheckpointStore(out / "checkpoints", keep=keep)


def check_no_run(out: Path) -> None:
    """Check that an output directory has room for a new run.

    Raises:
        CheckpointError: If it already holds one.
    """
    if checkpoint_store(out).exists():
        message = f"{out} already holds a run"
        raise CheckpointError(message, "Add --resume to go on with it, or choose another --out.")


def read_run(out: Path, *, num_updates: int | None = None) -> tuple[dict[str, Tensor], Manifest]:
    """Read a checkpoint of a run that is not to go on.

    Args:
        out: The output directory.
        num_updates: Of the checkpoint, one of those that were kept; by default the newest.

    Raises:
        CheckpointError: If there is no run in the directory, no such checkpoint is kept, or it is
            damaged.
    """
    store = checkpoint_store(out)
    if not store.exists():
        message = f"there is no run in {out}"
        remedy = (
            "Give the --out of the command that trained; of a chain STAGE or STAGE/member-1 in it."
        )
        raise CheckpointError(message, remedy)
    return store.load(num_updates)


@contextmanager
def must_fit_recipe(out: Path) -> Iterator[None]:
    """Say of tensors that do not go into what a recipe builds that the checkpoint does not fit.

    Yields:
        Nothing.

    Raises:
        CheckpointError: In place of what torch says.
    """
    try:
        yield
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        message = f"the checkpoint in {out} does not fit its recipe: {error}"
        raise CheckpointError(message, "Restore the directory from a backup.") from None


def image_shape(dataset: dict[str, Any]) -> ImageShape:
    """Return the shape that a manifest's data set facts describe.

    Raises:
        CheckpointError: If they are those of an adaptation, which has no generator.
    """
    if "classes" not in dataset:
        message = "the checkpoint is not of a generator: its data set has no classes"
        raise CheckpointError(message, "Give the --out of 'analyst train'.")
    return ImageShape(
        channels=dataset["channels"],
        height=dataset["height"],
        width=dataset["width"],
        num_classes=len(dataset["classes"]),
    )


def _read_file(path: Path) -> _File:
    return parsed(_FILE, read_bounded(path, _MOST_BYTES))


def _read(path: Path) -> tuple[dict[str, Tensor], Manifest]:
    """Read a manifest and its tensors.

    Raises:
        DocumentProblem: If one of them is damaged, or they do not belong together.
    """
    file = _read_file(path)
    tensors = path.parent / file.tensors
    if not tensors.is_file():
        msg = f"tensors: {file.tensors} is not there"
        raise DocumentProblem(msg)
    payload = tensors.read_bytes()
    if hashlib.sha256(payload).hexdigest() != file.sha256:
        msg = f"sha256: {file.tensors} does not have the SHA-256 that the manifest names"
        raise DocumentProblem(msg)
    return load(payload), file.manifest


def _remedy(damaged: Path, previous: list[Path]) -> str:
    if not previous:
        return "There is no older one: start a new run, or restore the directory from a backup."
    return f"Remove {damaged.name} to go on from the previous one, {previous[-1].name}."
