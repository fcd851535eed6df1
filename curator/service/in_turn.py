"""Compute in the thread of the call, so many at once, callers in turn.

A step that has to change threads twice waits twice for the interpreter. Calls outlive their RPC
anyway: gRPC cancels an answer, never the thread that makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any, final

import torch

from curator.service.fair_turns import FairTurns


def flush_subnormals(*, on: bool = True) -> None:
    """Make arithmetic of this thread take the same time for tiny numbers, which records could make.

    Args:
        on: False as before.
    """
    torch.set_flush_denormal(on)


@final
class InTurn(Executor):
    """An executor whose `submit` returns when the work is done."""

    def __init__(
        self, most: int, extra: int = 0, *, pool: ThreadPoolExecutor | None = None
    ) -> None:
        """Start with nobody inside.

        Args:
            most: How many compute at once.
            extra: So many more, each for a caller for whom nothing else is computed.
            pool: Of few threads for those who are inside, where each uses many cores or much
                memory of its own; without one they compute in the thread of the call.
        """
        self._turns = FairTurns(most, extra)
        self._pool = pool

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the work now, or when its turn comes.

        Raises:
            RuntimeError: If the executor was shut down.
        """
        with self._turns.turn():
            if self._pool is not None:
                done = self._pool.submit(fn, *args, **kwargs)
                wait([done])
                return done
            return _computed(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - of the base class
        """Take no more work.

        Args:
            wait: Whether to wait for those inside and those in the queue.
            cancel_futures: Nothing can be cancelled here.
        """
        del cancel_futures
        self._turns.close(wait=wait)
        if self._pool is not None:
            self._pool.shutdown(wait=wait)


def _computed(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    done: Future[Any] = Future()
    flush_subnormals()
    try:
        done.set_result(fn(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001 - the future has it, as with any executor
        done.set_exception(error)
    finally:
        flush_subnormals(on=False)  # of this thread, which does other work too
    return done
