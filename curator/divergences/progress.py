"""Tell the log how far a long preparation is: numbers that the request named, and nothing else."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Final

EVERY_SECONDS: Final = 10.0

_logger = logging.getLogger(__name__)


def told(turns: range) -> Iterator[int]:
    """Yield the turns, and log now and then how many were begun.

    Args:
        turns: Public numbers of updates.

    Yields:
        The same.
    """
    since = time.monotonic()
    for turn in turns:
        if time.monotonic() - since >= EVERY_SECONDS:
            _logger.info("critics: update %d of %d", turn - turns.start, len(turns))
            since = time.monotonic()
        yield turn
