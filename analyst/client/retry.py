"""Send the same request again: after a lost connection with backoff, after TooFast when told."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TypeVar

import grpc

from analyst.client.refusals import to_exception
from analyst.errors import (
    AnalystError,
    CuratorSilent,
    CuratorUnavailable,
    CuratorUnreachable,
    TooFast,
)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0

T = TypeVar("T")


def persist(
    attempt: Callable[[], T],
    *,
    target: str,
    patience: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Repeat an attempt while the curator is unreachable, or says when to come again.

    Args:
        attempt: Must ask for the same each time.
        target: HOST:PORT, for messages.
        patience: How long the curator may be unreachable, in seconds from the first failure: an
            answer that takes long is none, and neither is being told to wait. A deadline that
            passed in silence has used patience up, as far as it goes.
        clock: Seconds.
        sleep: Waits so many seconds.

    Raises:
        AnalystError: As the curator refused, or `CuratorUnreachable` when patience ended.
    """
    until, backoff = None, _FIRST_PAUSE
    while True:
        began = clock()
        try:
            return attempt()
        except grpc.RpcError as error:
            problem = to_exception(error, target)
        except CuratorUnreachable as error:
            problem = error
        if until is None or isinstance(problem, TooFast):
            silent_since = began if isinstance(problem, CuratorSilent) else clock()
            until, backoff = silent_since + patience, _FIRST_PAUSE
        pause = max(backoff * _jitter(), _asked(problem))
        backoff = min(2 * backoff, _LONGEST_PAUSE)
        _give_up_unless_unreachable(problem, left=until - clock() - pause)
        sleep(pause)


def _asked(problem: AnalystError) -> float:
    """Return the pause that the curator asked for."""
    return problem.retry_seconds if isinstance(problem, CuratorUnavailable) else 0.0


def _jitter() -> float:
    """Return a factor from 1/2 to 1, so that many analysts do not come back all at once."""
    return (1 + secrets.randbelow(1001) / 1000) / 2


def _give_up_unless_unreachable(problem: AnalystError, *, left: float) -> None:
    """Raise what is final, or what would last longer than the caller's patience.

    Raises:
        AnalystError: The problem.
    """
    if not isinstance(problem, CuratorUnreachable) or left <= 0:
        raise problem from None
