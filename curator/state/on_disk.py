"""The private state of one run on the curator's own disk, so that a crash ends no run.

A mechanism says how: either the state is written before each answer leaves, or what was asked is,
and the state only now and then; then it is computed again from there. Files are the owner's alone,
and are removed when the run ends.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from curator.data.sampling import PrivateRecords
from curator.mechanisms.base import StatefulMechanism
from curator.privacy.batches import Samples
from curator.privacy.noise import NoiseSource
from curator.state.asking import private_batches, state_step
from curator.state.journal import Journal, JournalEntry

STATE_EVERY = 64  # steps between two states of a mechanism whose steps can be replayed
_LENGTH = struct.Struct("<Q")  # of the header, at the beginning of a safetensors file

_logger = logging.getLogger(__name__)


@final
class StateOnDisk:
    """The files of one run: `state.safetensors`, and the journal of the steps since."""

    def __init__(self, folder: Path) -> None:
        """Take the files of a run that this process holds."""
        self._folder = folder
        self._state = folder / "state.safetensors"
        self._journal = Journal(folder / "journal")
        self._written: int | None = None  # the step of the state on disk, once one is known

    def start(self) -> None:
        """Begin with a run that has had no step."""
        self._journal.start()

    def restore(
        self, mechanism: StatefulMechanism, records: PrivateRecords, noise: NoiseSource
    ) -> Any:
        """Return the state after the last step that is kept, or before the first.

        Args:
            mechanism: Of the run.
            records: Of the data set.
            noise: For what is computed again and thrown away, of which nothing is released, and
                for the samples to come of a mechanism that trains on samples.

        Returns:
            What the process before had, bit for bit on the same machine.
        """
        batches = private_batches(mechanism, records, noise)
        if self._state.exists():
            step, tensors = _read(self._state)
            state, self._written = mechanism.unpack(tensors, batches), step
        else:
            state = mechanism.start(batches)
        for entry in self._journal.read():
            if self._written is None or entry.step > self._written:
                state = _next(mechanism, state, entry, noise)
        return state

    def before(self, mechanism: StatefulMechanism, step: int, samples: Samples) -> None:
        """Write down what a step asks, before it is computed.

        Args:
            mechanism: Of the run.
            step: Number of the step, charged already.
            samples: What it asks.
        """
        if mechanism.durability == "replay":
            self._journal.append(step, samples)

    def after(self, mechanism: StatefulMechanism, step: int, state: Any) -> None:
        """Write the state that a step left, if it is time to; its answer has not left yet.

        Args:
            mechanism: Of the run.
            step: Number of the step.
            state: After it.
        """
        if mechanism.durability == "every-step":
            self._keep(step, mechanism.pack(state))
        elif self._written is None or step - self._written >= STATE_EVERY:
            try:
                self._keep(step, mechanism.pack(state))
                self._journal.start()
            except (OSError, SafetensorError):  # the journal has it all; a later step tries again
                _logger.warning("a run's state could not be written; its journal grows")

    def forget(self) -> None:
        """Remove the files."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _keep(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        partial = self._state.with_suffix(".partial")
        save_file(_apart(tensors), partial, metadata={"step": str(step)})
        partial.chmod(0o600)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(self._state)
        sync_folder(self._folder)
        self._written = step


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _next(mechanism: StatefulMechanism, state: Any, entry: JournalEntry, noise: NoiseSource) -> Any:
    """Return the state after a step; one that fails leaves it, as when it was first computed."""
    try:
        return state_step(mechanism, state, entry.step, entry.samples, noise)[0]
    except Exception:  # noqa: BLE001 - the text may hold anything; it stays here
        _logger.warning("a step could not be computed again")
        return state


def _read(path: Path) -> tuple[int, dict[str, Tensor]]:
    """Return the step and copies of its tensors: how they lie in memory may decide a last bit.

    The file is read, not mapped: one that is cut meanwhile is an error and not the process's end.
    """
    content = path.read_bytes()
    tensors = {name: tensor.clone() for name, tensor in load(content).items()}
    (length,) = _LENGTH.unpack_from(content)
    header = json.loads(content[_LENGTH.size : _LENGTH.size + length])
    return int(header["__metadata__"]["step"]), tensors


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors that share memory with one before; the format has no room for that."""
    seen: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        shared = place in seen or tensor.untyped_storage().nbytes() != tensor.nbytes
        apart[name] = tensor.clone() if shared else tensor.contiguous()
        seen.add(place)
    return apart
