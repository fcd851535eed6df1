"""How this process deals with memory, Python's lock and messages; called before gRPC is imported.

Messages of hundreds of kilobytes come and go with every step. glibc would ask the system for each
of them and give it back, and every page would fault anew: three temporaries of a step take five
times as long. gRPC's older event engine is faster still, and was tried: it moves a connection only
while somebody polls, so a client never found a curator again that had been gone for some seconds.
What is kept is kept in each of glibc's arenas, of which there would be eight for each core; a step
is computed in whichever thread its call has, so large steps would fill all of them.

A step takes Python's lock some ten times, and each time it may wait for a thread that holds it: for
as long as that one likes, up to the interval that is set here.

gRPC's core writes lines of its own to standard error, such as one for each handshake that fails;
the log there is one JSON object a line, so it is silent unless the steward asks for it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from typing import Final

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt, in glibc's malloc.h
_ARENA_MAX: Final = -8
_ARENAS: Final = 4
_SWITCH_SECONDS: Final = 0.0001
_KEPT_BYTES: Final = 32 << 20  # the most that glibc takes as a threshold


def tune_process() -> None:
    """Keep freed memory for the next message, no thread waiting long, and gRPC's core silent."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    with suppress(OSError, AttributeError):  # another C library: only slower
        mallopt = ctypes.CDLL(None).mallopt
        for option in (_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD):
            mallopt(option, _KEPT_BYTES)
        mallopt(_ARENA_MAX, _ARENAS)
