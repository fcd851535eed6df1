"""What the process returns."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns."""

    OK = 0  # done
    FAILED = 1  # what was asked cannot be done; the message says why
    USAGE = 2  # the command line
    LEDGER = 3  # the ledger is locked, broken, restored from a copy, or of a newer version
    PORT = 4  # a port cannot be bound
    ATTENTION = 5  # 'curator doctor' found something that somebody should look at
    OUTPUT_LOST = 6  # done, and durable; what it printed could not be written
    INTERRUPTED = 130  # Ctrl-C
