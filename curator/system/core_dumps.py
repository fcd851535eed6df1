"""No file of this process's memory is ever written: it would hold keys, images and noise.

Two settings, as each leaves a way open: a limit of zero is inherited by every worker, but systems
that hand dumps to a program ignore it; a process that is not dumpable is dumped by neither, but
what it starts is again.
"""

from __future__ import annotations

import ctypes
import logging
import resource
import sys
from contextlib import suppress

_GET_DUMPABLE, _SET_DUMPABLE = 3, 4  # of prctl, in linux/prctl.h

_logger = logging.getLogger(__name__)


def forbid_core_dumps() -> None:
    """Switch core dumps off for this process, before it reads a key or an image, or say so.

    Whoever is not root can no longer attach a debugger to it, either.
    """
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            _prctl(_SET_DUMPABLE, 0)
    if not are_core_dumps_off():
        _logger.warning(
            "core dumps could not be switched off here: a crash may leave keys and private images "
            "on the disk; set 'ulimit -c 0', and kernel.core_pattern to a place that keeps none"
        )


def are_core_dumps_off() -> bool:
    """Return whether no core of this process can be written."""
    if resource.getrlimit(resource.RLIMIT_CORE) != (0, 0):
        return False
    if sys.platform != "linux":
        return True
    try:
        return _prctl(_GET_DUMPABLE, 0) == 0
    except (OSError, AttributeError):
        return False


def _prctl(option: int, value: int) -> int:
    """Call prctl.

    Raises:
        OSError: If the system refuses.
    """
    answer: int = ctypes.CDLL(None, use_errno=True).prctl(
        ctypes.c_int(option), *(ctypes.c_ulong(number) for number in (value, 0, 0, 0))
    )
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, "prctl")
    return answer
