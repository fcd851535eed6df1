"""What the process answers to its caller."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process answers to its caller."""

    OK = 0  # done
    FAILED = 1  # a fault of this program, or a certificate that does not hold
    USAGE = 2  # the command line
    RECIPE = 3  # a recipe or an option that changes one
    FILES = 4  # credentials, a checkpoint, a file of images, or what an evaluation needs
    REFUSED = 5  # the curator said no
    BUDGET_EXHAUSTED = 6  # the data set cannot afford what was asked
    UNREACHABLE = 7  # the curator does not answer; a checkpoint was saved if a run was open
    PROTOCOL = 8  # the curator's answer makes no sense: versions differ
    REHEARSAL = 9  # the certificate is of a rehearsal: it holds, and it promises nothing
    UNKNOWN_SIGNER = 10  # the signature holds, and nothing was given that says whose it is
    OUTPUT_LOST = 11  # done, and durable; what it printed could not be written
    INTERRUPTED = 130  # SIGINT or SIGTERM; a checkpoint was saved
