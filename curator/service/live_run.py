"""One run as its holder serves it: which steps are claimed, and the answers that are still kept.

Each run keeps the answers that a broken stream may ask for again. An analyst with many runs of
large steps could fill the memory with them, so beyond a size its oldest are let go: whoever asks
for one of those is told that the step was charged and its answer is no longer kept.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, defaultdict
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, final

from curator.data.sampling import PrivateRecords
from curator.mechanisms.base import ServedMechanism
from curator.privacy.batches import Samples
from curator.privacy.facts import DatasetFacts
from curator.privacy.release import Release
from curator.service.steward_policy import StewardPolicy
from curator.state.in_memory import StateInMemory

KEPT_ANSWERS = 16
KEPT_BYTES = 64 << 20
_FIRST_BLOCK, _LARGEST_BLOCK = 1, 4096
_SHORT_SECONDS, _LONG_SECONDS = 1.0, 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The reply to one step, the same object for every twin of the request."""

    step: int
    release: Release
    spent_epsilon: float
    budget_epsilon: float


@dataclass(slots=True)
class Claim:
    """One claimed step: what was asked, and the answer to come."""

    asked: Samples  # digested; nobody writes into them
    answer: Future[Answer]
    claimed_at: float  # monotonic seconds; response slots count from here
    num_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the bytes of the request, and of an answer with twice as wide numbers."""
        self.num_bytes = 3 * self.asked.images_ND.nbytes


@dataclass(slots=True)
class MarkBlock:
    """How many steps to charge ahead: about one to two seconds of work, from public timing only."""

    size: int = _FIRST_BLOCK
    advanced_at: float | None = None

    def next_size(self, now: float) -> int:
        """Return the block to charge now, adapted to how long the last one lasted.

        Args:
            now: Monotonic seconds.
        """
        if self.advanced_at is not None:
            lasted = now - self.advanced_at
            if lasted < _SHORT_SECONDS:
                self.size = min(2 * self.size, _LARGEST_BLOCK)
            elif lasted > _LONG_SECONDS:
                self.size = max(self.size // 2, 1)
        self.advanced_at = now
        return self.size


@dataclass(slots=True, weakref_slot=True, eq=False)
class LiveRun:
    """State that only the holder of a run has; every field is guarded by `lock`."""

    run_id: str
    analyst: str
    epoch: int
    num_steps: int
    mark: int  # durable: steps that may have been answered
    used: int  # claimed steps; never above the mark
    facts: DatasetFacts
    records: PrivateRecords
    mechanism: ServedMechanism
    policy: StewardPolicy  # as of the last block; the ledger's transactions see it at once
    released: Release | None = None  # of a mechanism that releases once
    held: StateInMemory | None = None  # of a mechanism that keeps a state
    closed: bool = False
    relinquished: bool = False  # open, and not this process's any more
    touched_at: float = 0.0  # monotonic seconds of the last claim
    spent_epsilon: float = 0.0
    cap_epsilon: float = 0.0  # what the steward allows
    block: MarkBlock = field(default_factory=MarkBlock)
    claims: OrderedDict[int, Claim] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, step: int, claim: Claim) -> None:
        """Remember a claim and forget the oldest answered ones, but never the last two.

        As many are kept as an analyst may have on their way, or fewer of very large requests. What
        all runs of an analyst keep is bounded elsewhere.
        """
        self.claims[step] = claim
        most = max(2, min(KEPT_ANSWERS, KEPT_BYTES // max(1, claim.num_bytes)))
        while len(self.claims) > most:
            oldest = next(iter(self.claims))
            if not self.claims[oldest].answer.done():
                return
            del self.claims[oldest]


MOST_BYTES: Final = 256 << 20
_COUNT_EACH: Final = 64


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


@dataclass(slots=True)
class _KeptOfAnalyst:
    """What was noted since it was last counted, and all that was kept then."""

    kept: list[_Kept] = field(default_factory=list)
    at_most: int = 0  # bytes; runs let go of answers by themselves
    count_beyond: int = _COUNT_EACH  # entries


@final
class AnswerCache:
    """Knows which claims of each analyst are kept, the oldest first."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """Take how many bytes one analyst's may have."""
        self._most = most_bytes
        self._lock = threading.Lock()
        self._analysts: defaultdict[str, _KeptOfAnalyst] = defaultdict(_KeptOfAnalyst)

    def note(self, live: LiveRun, step: int) -> None:
        """Count a claim that a run keeps from now on, and let go of older answers if need be.

        Most steps add to a sum that is never too small; what is really kept is counted when that
        reaches the bound, or when many entries came.

        Args:
            live: The run; this thread has its lock.
            step: The claimed step, which stays.
        """
        with self._lock:
            ours = self._analysts[live.analyst]
            ours.kept.append(_Kept(weakref.ref(live), step))
            ours.at_most += live.claims[step].num_bytes
            if ours.at_most > self._most or len(ours.kept) > ours.count_beyond:
                self._count(ours, live)

    def _count(self, ours: _KeptOfAnalyst, live: LiveRun) -> None:
        """Count what is kept, and let go of the oldest beyond the bound, but not of the last."""
        sizes = {kept: claim.num_bytes for kept in ours.kept if (claim := kept.claim()) is not None}
        over = sum(sizes.values()) - self._most
        for kept, size in list(sizes.items())[:-1]:
            if over > 0 and kept.let_go(live):
                del sizes[kept]
                over -= size
        ours.kept, ours.at_most = list(sizes), sum(sizes.values())
        ours.count_beyond = 2 * len(sizes) + _COUNT_EACH


def _forget(live: LiveRun, step: int) -> bool:
    """Forget an answered claim of a run whose lock this thread has."""
    claim = live.claims.get(step)
    if claim is not None and not claim.answer.done():
        return False
    live.claims.pop(step, None)
    return True
