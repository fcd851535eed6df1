"""One trainer for one output directory: a lock that the system gives back when its holder ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from analyst.training.errors import CheckpointError

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def only_trainer(out: Path, *, is_new: bool) -> Iterator[None]:
    """Hold an output directory while the block runs.

    Args:
        out: Output directory.
        is_new: Whether it is made if it is missing; a run that goes on has one.

    Yields:
        Nothing.

    Raises:
        CheckpointError: If another process holds it, or it cannot be written.
    """
    if not is_new and not out.exists():
        yield  # what is wrong with it is said when its checkpoint is read
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(out / "lock", _FLAGS, 0o600)
    except OSError as error:
        message = f"cannot write to {out}: {error.strerror}"
        raise CheckpointError(message, "Choose another --out.") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode("ascii", "replace") or "unknown"
            message = f"process {holder} trains in {out}"
            remedy = "Stop it or wait until it ends, then add --resume; or choose another --out."
            raise CheckpointError(message, remedy) from None
        except OSError:
            pass  # a file system that cannot lock: trainers are not told apart there
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        os.close(descriptor)
