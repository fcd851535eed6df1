"""Whose an output directory is: one run's, and of one trainer at a time.

The lock is one that the system gives back when its holder ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from analyst.errors import CheckpointError, OutputRefused
from analyst.new_file import check_place
from analyst.os_errors import explain_os_error, naming

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def only_trainer(out: Path, *, is_new: bool) -> Iterator[None]:
    """Hold an output directory while the block runs.

    A directory that was made for the block is removed again if the block leaves nothing in it, as
    after a refusal.

    Args:
        out: Output directory.
        is_new: Whether it is made if it is missing; a run that goes on has one.

    Yields:
        Nothing.

    Raises:
        CheckpointError: If another process holds it, or it cannot be written.
    """
    check_run_folder(out, is_new=is_new)
    if not is_new and not out.exists():
        yield  # what is wrong with it is said when its checkpoint is read
        return
    made = [path for path in (out, *out.parents) if not path.exists()]
    descriptor = _take(out)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        try:
            yield
        finally:
            _remove_if_empty(out, made)
    finally:
        os.close(descriptor)


def _take(out: Path) -> int:
    """Return the lock file, held; one that its last holder has just removed is made again.

    Raises:
        CheckpointError: If another process holds it, or it cannot be written.
    """
    while True:
        descriptor = _open(out)
        try:
            _hold(descriptor, out)
        except CheckpointError:
            os.close(descriptor)
            raise
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def _open(out: Path) -> int:
    """Open the lock file, made with its directory if it is missing.

    Raises:
        CheckpointError: If it cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        return os.open(out / "lock", _FLAGS, 0o600)
    except OSError as error:
        error.filename = str(out)
        words, remedy = explain_os_error(error)
        message = f"cannot write to {words}"
        raise CheckpointError(message, remedy) from None


def _hold(descriptor: int, out: Path) -> None:
    """Take the lock.

    Raises:
        CheckpointError: If another process holds it.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode("ascii", "replace") or "unknown"
        message = f"process {holder} trains in {out}"
        remedy = "Stop it or wait until it ends, then add --resume; or choose another --out."
        raise CheckpointError(message, remedy) from None
    except OSError:
        pass  # a file system that cannot lock: trainers are not told apart there


def _remove_if_empty(out: Path, made: list[Path]) -> None:
    """Remove directories that were made, the innermost first, if they hold the lock at most."""
    with suppress(OSError):
        if out in made and [path.name for path in out.iterdir()] == ["lock"]:
            (out / "lock").unlink()  # while it is held: whoever opens it now sees it without a name
            for path in made:
                path.rmdir()


_OF_A_RUN: Final = frozenset(
    {
        "lock",
        "checkpoints",
        "metrics.jsonl",
        "samples",
        "certificate.json",
        "certificates",
        "federation.json",
        "embedding.safetensors",
    }
)


def check_run_folder(out: Path, *, is_new: bool) -> None:
    """Check that a directory is a run's own, before anything is written to it.

    A run that goes on has a checkpoint there; what else lies beside it is its owner's business.

    Raises:
        OutputRefused: If it lies in a curator's folder, or holds a chain or other files than a
            run's.
    """
    check_place(out)
    if not is_new or not out.is_dir() or any((out / "checkpoints").glob("checkpoint-*.json")):
        return
    if (out / "chain.json").is_file():
        message = f"{out} already holds a chain"
        raise OutputRefused(message, "Add --resume to go on with it, or choose another --out.")
    with naming(out):
        others = sorted(path.name for path in out.iterdir() if path.name not in _OF_A_RUN)
    if others:
        message = f"{out} is in use: it holds {others[0]}, which is no file of a run"
        raise OutputRefused(message, "Choose another --out: a new directory, or an empty one.")
