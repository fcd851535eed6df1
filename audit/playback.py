"""Play one trial through the whole service twice: on D, and on D' with the same words and releases.

The curator serves over TLS and gRPC as ever. On D every release of the sanitizer is recorded. On D'
all is computed again with the same random words, and the recorded releases take the place of its
own: records have been read, and nothing of them but these may reach anything. So what the ledger
writes, every reply and every error must be the same, and so must the budget. What a session
remembers may differ where the mechanism may let it, in one network. What was released on D' before
it was replaced is compared with the recording, in exact integers, against the sensitivity.

Identities that are drawn for each run are left out: its number, times and what hangs on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, final

from torch import Tensor

from analyst.errors import AnalystError
from audit.canaries import Pair
from audit.canary_records import Records, records_of
from audit.game import ask
from audit.noise import Tape, TapedNoise
from audit.recorded import RecordedRelease, recorded
from audit.same_randomness import changed_parts, distance, one_at_most
from audit.target import Target
from audit.throw_away import ThrowAwayCurator, throw_away_curator
from curator.mechanisms.base import StatefulMechanism
from curator.privacy.batches import RecordBatch
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.noise import NoiseSource
from curator.privacy.private import Private
from curator.state import in_memory

_KEY: Final = "weir-audit-playback"
_RUN: Final = "the run"
_STEP: Final = "state_step"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Transcript:
    """What one trial left behind, everywhere.

    Attributes:
        entries: Of the ledger, in order.
        replies: What came back, in order: bytes of an answer, or the name of an error.
        budget: What the curator says of it, before and after.
        state: What the session remembers, packed.
        made: Releases as the sanitizer made them.
    """

    entries: tuple[tuple[str, str], ...]
    replies: tuple[bytes | str, ...]
    budget: tuple[Any, ...]
    state: dict[str, Tensor]
    made: list[RecordedRelease]


@dataclass(frozen=True, kw_only=True, slots=True)
class Playback:
    """What two transcripts have in common; None where it is not promised.

    `same_releases` says that as many were made, by the same functions.
    """

    mechanism: str
    canary: str
    same_charges: bool
    same_releases: bool
    same_replies: bool | None
    same_budget: bool
    one_part: bool | None
    num_replies: int
    squared_difference: int  # in lattice spacings, exact; of the worst release
    squared_sensitivity: int

    @property
    def holds(self) -> bool:
        """Whether everything promised is so."""
        promised = (
            self.same_charges,
            self.same_releases,
            self.same_replies,
            self.same_budget,
            self.one_part,
        )
        return False not in promised and self.squared_difference <= self.squared_sensitivity


def play_back(
    target: Target, pair: Pair, *, plant: Callable[[Records], Records] = lambda records: records
) -> Playback:
    """Play one trial through a curator with D, and through one with D'.

    A record that fails draws its own coin, so other words are left for whatever is drawn anew for
    each answer: there replies are not promised to be equal.

    Args:
        target: The mechanism.
        pair: The canary.
        plant: For tests: wraps the records of D', to plant a fault.
    """
    tape = Tape()
    fewer, more = (records_of(pair, with_extra=with_extra) for with_extra in (False, True))
    without = _played(target, pair, fewer, tape, ())
    extra = _played(target, pair, plant(more), tape, without.made)
    alike = [one.by for one in without.made] == [one.by for one in extra.made]
    difference, sensitivity = (0, 1)
    if alike:
        difference, sensitivity = distance(target.open(), without.made, extra.made)
    parts = changed_parts(without.state, extra.state, target.num_parts)
    return Playback(
        mechanism=target.name,
        canary=pair.canary,
        same_charges=without.entries == extra.entries,
        same_releases=alike,
        same_replies=None if pair.fails else without.replies == extra.replies,
        same_budget=without.budget == extra.budget,
        one_part=one_at_most(parts, target) if without.state else None,
        num_replies=len(without.replies),
        squared_difference=difference,
        squared_sensitivity=sensitivity,
    )


@final
class _InTurn:
    """Records whose samples are drawn when they are asked for, so that words come in one order."""

    def __init__(self, records: Records) -> None:
        """Take the records."""
        self._records = records

    def poisson_batch(
        self, rate: SamplingRate, capacity: int, noise: NoiseSource
    ) -> Private[RecordBatch]:
        """Return a fresh sample."""
        return self._records.poisson_batch(rate, capacity, noise)

    def draw_ahead(self, rate: SamplingRate, capacity: int, noise: NoiseSource) -> None:
        """Draw nothing."""

    def batches(self, rows: int) -> Iterator[Private[RecordBatch]]:
        """Return every record once."""
        return self._records.batches(rows)

    def is_whole(self) -> bool:
        """Return whether all records are still there."""
        return self._records.is_whole()


def _played(
    target: Target, pair: Pair, records: Records, tape: Tape, replayed: Sequence[RecordedRelease]
) -> Transcript:
    with (
        recorded(replayed) as made,
        _states() as states,
        throw_away_curator(_InTurn(records), TapedNoise(tape), monotonic=lambda: 0.0) as curator,
    ):
        dataset = curator.new_dataset()
        budget = [curator.barrier.budget(dataset)]
        replies, run_id = _asked(curator, target, pair, dataset)
        budget.append(curator.barrier.budget(dataset))
        entries = tuple(
            (one.kind, one.body.replace(run_id, _RUN)) for one in curator.runs.ledger.entries()
        )
    mechanism = target.open()
    packed: dict[str, Tensor] = {}
    if isinstance(mechanism, StatefulMechanism) and states:
        packed = mechanism.pack(states[-1])
    return Transcript(
        entries=entries,
        replies=tuple(replies),
        budget=tuple(budget),
        state=packed,
        made=made,
    )


def _asked(
    curator: ThrowAwayCurator, target: Target, pair: Pair, dataset: str
) -> tuple[list[bytes | str], str]:
    """Ask for everything that there is in one trial, and close the run.

    Returns:
        What came back, and the run's number.
    """
    barrier, samples = curator.barrier, target.samples(pair)
    replies: list[bytes | str] = []
    try:
        run = barrier.open_run(
            dataset,
            target.mechanism,
            target.parameters,
            num_steps=target.num_steps,
            idempotency_key=_KEY,
        )
    except AnalystError as error:
        return [type(error).__name__], _RUN
    for step in range(1, target.num_steps + 2):  # the last one is refused
        try:
            replies.append(ask(run, target, samples).tobytes())
        except AnalystError as error:
            replies.append(f"{step}: {type(error).__name__}")
    try:
        replies.append(barrier.download_release(run.run_id).values.numpy().tobytes())
    except AnalystError as error:
        replies.append(type(error).__name__)
    return replies, run.run_id


@contextmanager
def _states() -> Iterator[list[Any]]:
    """Note the state of a session after each step, until the block is left."""
    seen: list[Any] = []
    real = vars(in_memory)[_STEP]

    def noting(*arguments: Any) -> Any:
        after = real(*arguments)
        seen.append(after[0])
        return after

    setattr(in_memory, _STEP, noting)
    try:
        yield seen
    finally:
        setattr(in_memory, _STEP, real)
