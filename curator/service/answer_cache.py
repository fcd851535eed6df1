"""How much one analyst's kept answers may take, over all of its runs.

Each run keeps the answers that a broken stream may ask for again. An analyst with many runs of
large steps could fill the memory with them, so beyond a size its oldest are let go: whoever asks
for one of those is told that the step was charged and its answer is no longer kept.
"""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from dataclasses import dataclass
from typing import Final, final

from curator.service.live_run import Claim, LiveRun

MOST_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    run: weakref.ref[LiveRun]  # a run that is forgotten takes its answers with it
    step: int

    def claim(self) -> Claim | None:
        """Return what is still kept."""
        live = self.run()
        return None if live is None else live.claims.get(self.step)

    def let_go(self, held: LiveRun) -> bool:
        """Let go of an answer, unless it is not made yet or its run is busy.

        Args:
            held: The run whose lock this thread has.
        """
        live = self.run()
        if live is None or live is held:
            return live is None or _forget(live, self.step)
        if not live.lock.acquire(blocking=False):
            return False
        try:
            return _forget(live, self.step)
        finally:
            live.lock.release()


@final
class AnswerCache:
    """Knows which claims of each analyst are kept, the oldest first."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """Take how many bytes one analyst's may have."""
        self._most = most_bytes
        self._lock = threading.Lock()
        self._kept: defaultdict[str, list[_Kept]] = defaultdict(list)

    def note(self, live: LiveRun, step: int) -> None:
        """Count a claim that a run keeps from now on, and let go of older answers if need be.

        Args:
            live: The run; this thread has its lock.
            step: The claimed step, which stays.
        """
        with self._lock:
            sizes = {
                kept: claim.num_bytes
                for kept in self._kept[live.analyst]
                if (claim := kept.claim()) is not None
            }
            over = sum(sizes.values()) + live.claims[step].num_bytes - self._most
            for kept, size in list(sizes.items()):
                if over > 0 and kept.let_go(live):
                    del sizes[kept]
                    over -= size
            self._kept[live.analyst] = [*sizes, _Kept(weakref.ref(live), step)]


def _forget(live: LiveRun, step: int) -> bool:
    """Forget an answered claim of a run whose lock this thread has."""
    claim = live.claims.get(step)
    if claim is not None and not claim.answer.done():
        return False
    live.claims.pop(step, None)
    return True
