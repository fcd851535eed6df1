"""Whether a process holds a lock, read off the system's list: taking it would stop who needs it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_LIST: Final = Path("/proc/locks")
_KIND, _FILE = 1, 5


def are_listed() -> bool:
    """Return whether the system says which locks are held."""
    return _LIST.exists()


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock on a file; False where the system does not say."""
    try:
        state, lines = path.stat(), _LIST.read_text().splitlines()
    except OSError:
        return False
    device = state.st_dev
    name = f"{os.major(device):02x}:{os.minor(device):02x}:{state.st_ino}"
    fields = (line.replace(" -> ", " ").split() for line in lines)
    return any(one[_KIND] == "FLOCK" and one[_FILE] == name for one in fields if len(one) > _FILE)
