"""Compute in the thread of the call, so many at once, first come first served.

A step that has to change threads twice waits twice for the interpreter. Calls outlive their RPC
anyway: gRPC cancels an answer, never the thread that makes it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, final

import torch


@final
class InTurn(Executor):
    """An executor without threads: `submit` returns when the work is done."""

    def __init__(self, most: int) -> None:
        """Start with nobody inside.

        Args:
            most: How many compute at once.
        """
        self._lock = threading.Condition()
        self._free = most
        self._most = most
        self._queue: deque[threading.Event] = deque()
        self._stopped = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the work now, or when those who came before are done.

        Args:
            fn: The work.
            *args: Of the work.
            **kwargs: Of the work.

        Returns:
            A future that is done.

        Raises:
            RuntimeError: If the executor was shut down.
        """
        self._enter()
        done: Future[Any] = Future()
        torch.set_flush_denormal(True)  # tiny numbers, which records could produce, take no longer
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - the future has it, as with any executor
            done.set_exception(error)
        finally:
            torch.set_flush_denormal(False)  # of this thread, which does other work too
            self._leave()
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - of the base class
        """Take no more work.

        Args:
            wait: Whether to wait for those inside and those in the queue.
            cancel_futures: Nothing can be cancelled here.
        """
        del cancel_futures
        with self._lock:
            self._stopped = True
            if wait:
                self._lock.wait_for(lambda: self._free == self._most)

    def _enter(self) -> None:
        with self._lock:
            if self._stopped:
                msg = "no more work is taken"
                raise RuntimeError(msg)
            if self._free:
                self._free -= 1
                return
            turn = threading.Event()
            self._queue.append(turn)
        turn.wait()

    def _leave(self) -> None:
        """Give the place to the first in the queue, so that no newcomer overtakes."""
        with self._lock:
            if self._queue:
                self._queue.popleft().set()
                return
            self._free += 1
            self._lock.notify_all()
