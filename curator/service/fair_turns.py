"""Who works next: never one caller's second piece of work before another caller's first.

A caller who has nothing inside is let in at once, beside `most` pieces of whoever came before, up
to `most + extra` in all: the operating system shares the cores among them, and a short piece of
work does not wait for a long one of somebody else. Further pieces of the same caller take places
that are free, all but one of them while others are at work too, and those who wait are served
caller by caller in turn. Where it is asked for, a caller rests after a piece for twice as long as
that took, so one who comes again and again takes a third of a core, or of Python's lock, at most.

Work is done in the thread of the call: a step that has to change threads twice waits twice for the
interpreter. Calls outlive their RPC anyway: gRPC cancels an answer, never the thread that makes it.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, final

import torch

_MOMENT_SECONDS: Final = 1.0  # of an analyst's own work between two steps
_REST: Final = 2.0  # for each second of work
_WORKS_FOR: Final[ContextVar[str]] = ContextVar("works_for", default="")


@contextmanager
def working_for(caller: str) -> Iterator[None]:
    """Say for whom this thread asks for turns.

    Args:
        caller: A name; without one everybody is the same caller.
    """
    token = _WORKS_FOR.set(caller)
    try:
        yield
    finally:
        _WORKS_FOR.reset(token)


@final
class FairTurns:
    """Turns among callers."""

    def __init__(
        self,
        most: int,
        extra: int = 0,
        *,
        longest_rest: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Start with nobody inside.

        Args:
            most: Pieces of work at once, whosesoever they are.
            extra: So many more, each the only one of its caller.
            longest_rest: Of a caller between two pieces, in seconds.
            clock: In seconds.
            sleep: Waits so many seconds.
        """
        self._longest_rest = longest_rest
        self._clock = clock
        self._sleep = sleep
        self._rests: dict[str, float] = {}  # until when
        self._left: dict[str, float] = {}  # who was inside a moment ago, and when
        self._most = most
        self._all = most + extra
        self._closed = False
        self._lock = threading.Condition()
        self._inside: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[threading.Event]] = OrderedDict()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn and hold it while the block lasts.

        Raises:
            RuntimeError: If no more turns are given.
        """
        caller = _WORKS_FOR.get()
        self._enter(caller)
        began = math.inf
        try:
            self._rest(caller)
            began = self._clock()
            yield
        finally:
            self._leave(caller, began)

    def close(self, *, wait: bool) -> None:
        """Give no more turns but to those who wait for one.

        Args:
            wait: Whether to wait for them and for those inside.
        """
        with self._lock:
            self._closed = True
            if wait:
                self._lock.wait_for(lambda: not self._inside and not self._waiting)

    @property
    def num_waiting(self) -> int:
        """How many wait for a turn."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    def _enter(self, caller: str) -> None:
        """Go in, or wait for a turn.

        Raises:
            RuntimeError: If no more turns are given.
        """
        with self._lock:
            if self._closed:
                msg = "no more work is taken"
                raise RuntimeError(msg)
            if caller not in self._waiting and self._may_enter(caller):
                self._inside[caller] += 1
                return
            turn = threading.Event()
            self._waiting.setdefault(caller, deque()).append(turn)
        turn.wait()

    def _may_enter(self, caller: str) -> bool:
        total = self._inside.total()
        if caller not in self._inside:
            return total < self._all
        return total < self._most - self._others_work(caller)

    def _others_work(self, caller: str) -> bool:
        """Return whether anybody else is inside, or was a moment ago."""
        since = self._clock() - _MOMENT_SECONDS
        self._left = {one: at for one, at in self._left.items() if at >= since}
        return any(one != caller for one in (*self._inside, *self._left))

    def _rest(self, caller: str) -> None:
        """Wait, in the place that the caller has, until its rest from the piece before is over."""
        rest = self._rests.get(caller, -math.inf) - self._clock()
        if rest > 0:
            self._sleep(rest)

    def _leave(self, caller: str, began: float) -> None:
        """Hand the place to whoever waits, so that no newcomer overtakes."""
        now = self._clock()
        rest = min(self._longest_rest, _REST * (now - began))
        with self._lock:
            self._rests = {one: until for one, until in self._rests.items() if until > now}
            if rest > 0:
                self._rests[caller] = now + rest
            self._inside[caller] -= 1
            if not self._inside[caller]:
                del self._inside[caller]
            self._left[caller] = self._clock()
            while (following := self._following()) is not None:
                self._let_in(following)
            self._lock.notify_all()

    def _following(self) -> str | None:
        """Return who is let in next: the one with the least inside who was served longest ago."""
        return min(
            filter(self._may_enter, self._waiting), key=self._inside.__getitem__, default=None
        )

    def _let_in(self, caller: str) -> None:
        self._inside[caller] += 1
        queue = self._waiting.pop(caller)
        queue.popleft().set()
        if queue:
            self._waiting[caller] = queue  # behind the others


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
