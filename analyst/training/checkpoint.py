"""Checkpoints that survive a power cut: safetensors for numbers, JSON for words, never pickle.

A checkpoint is two files. The tensors are written first, then the manifest that names their
SHA-256; both go to a temporary file, are synced and renamed. Only the manifest makes a checkpoint
exist, so a process killed at any moment leaves the previous one whole. The ledger, not a
checkpoint, knows which step of a run is next.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, final

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from analyst.documents import DocumentProblem, parsed, read_bounded
from analyst.new_file import write_file
from analyst.os_words import in_words
from analyst.training.checkpoint_words import WORDS, Words
from analyst.training.errors import CheckpointError as CheckpointError

_MOST_BYTES = 1 << 24
_STEM = "checkpoint-"
_Read = TypeVar("_Read")


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The words of a checkpoint."""

    run_id: str
    num_updates: int
    next_step: int  # as the ledger said when this was written; the ledger may be ahead
    num_steps: int
    finished: bool
    dataset: dict[str, Any]
    recipe: dict[str, Any]


@final
class CheckpointStore:
    """The checkpoints of one output directory; keeps the newest `keep`."""

    def __init__(self, directory: Path, *, keep: int = 2) -> None:
        """Use `directory`, which is made when the first checkpoint is written."""
        self.directory = directory
        self._keep = keep

    def save(self, tensors: dict[str, Tensor], manifest: Manifest) -> Path:
        """Write a checkpoint and drop the ones beyond `keep`.

        Args:
            tensors: CPU tensors, contiguous.
            manifest: What they belong to.

        Returns:
            The manifest's path.
        """
        payload = save(tensors)
        digest = hashlib.sha256(payload).hexdigest()
        stem = f"{_STEM}{manifest.num_updates:010d}"
        # a name that depends on the content never overwrites the tensors of an older manifest
        tensor_file = f"{stem}-{digest[:8]}.safetensors"
        write_file(self.directory / tensor_file, payload, replace=True)
        words = {
            "format": 1,
            "tensors": tensor_file,
            "sha256": digest,
            **{name: getattr(manifest, name) for name in Manifest.__dataclass_fields__},
        }
        path = self.directory / f"{stem}.json"
        write_file(path, json.dumps(words, indent=1).encode() + b"\n", replace=True)
        self._drop_old()
        return path

    def exists(self) -> bool:
        """Return whether there is a checkpoint to load."""
        return bool(self._manifests())

    def load(self) -> tuple[dict[str, Tensor], Manifest]:
        """Read and verify the newest checkpoint.

        Returns:
            Its tensors and its manifest.

        Raises:
            CheckpointError: If there is none, or the newest is damaged.
        """
        return self._newest(_read)

    def manifest(self) -> Manifest:
        """Read what the newest checkpoint says of itself, without its tensors.

        Raises:
            CheckpointError: If there is none, or the newest says nothing that can be read.
        """
        return self._newest(_read_manifest)

    def _newest(self, read: Callable[[Path], _Read]) -> _Read:
        manifests = self._manifests()
        if not manifests:
            message = f"there is no checkpoint in {self.directory}"
            raise CheckpointError(message, "Check the run's folder, or start without --resume.")
        newest = manifests[-1]
        try:
            return read(newest)
        except OSError as error:
            raise CheckpointError(*in_words(error, str(newest))) from None
        except (ValueError, KeyError, TypeError, SafetensorError) as error:
            message = f"checkpoint {newest} is damaged: {error}"
            raise CheckpointError(message, _remedy(newest, manifests[:-1])) from None

    def _manifests(self) -> list[Path]:
        return sorted(self.directory.glob(f"{_STEM}*.json"))

    def _drop_old(self) -> None:
        manifests = self._manifests()
        for path in manifests[: -self._keep]:
            path.unlink()
        stems = tuple(path.stem for path in manifests[-self._keep :])
        newest = [_words(p).tensors for p in manifests[-1:]]
        for path in self.directory.glob(".*.partial"):  # of a trainer that was killed
            path.unlink()
        for path in self.directory.glob(f"{_STEM}*.safetensors"):
            old = not path.name.startswith(stems)
            replaced = path.name.startswith(stems[-1]) and path.name not in newest
            if old or replaced:
                path.unlink()


def _words(path: Path) -> Words:
    return parsed(WORDS, read_bounded(path, _MOST_BYTES))


def _read_manifest(path: Path) -> Manifest:
    return _manifest(_words(path))


def _manifest(words: Words) -> Manifest:
    return Manifest(**{name: getattr(words, name) for name in Manifest.__dataclass_fields__})


def _read(path: Path) -> tuple[dict[str, Tensor], Manifest]:
    """Read a manifest and its tensors.

    Raises:
        DocumentProblem: If one of them is damaged, or they do not belong together.
    """
    words = _words(path)
    tensors = path.parent / words.tensors
    if not tensors.is_file():
        msg = f"tensors: {words.tensors} is not there"
        raise DocumentProblem(msg)
    payload = tensors.read_bytes()
    if hashlib.sha256(payload).hexdigest() != words.sha256:
        msg = f"sha256: {words.tensors} does not have the SHA-256 that the manifest names"
        raise DocumentProblem(msg)
    return load(payload), _manifest(words)


def _remedy(damaged: Path, previous: list[Path]) -> str:
    if not previous:
        return "There is no older one: start a new run, or restore the directory from a backup."
    return f"Remove {damaged.name} to go on from the previous one, {previous[-1].name}."
