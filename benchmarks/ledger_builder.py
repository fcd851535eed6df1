"""Builds a ledger with many closed runs: `Book` decides every entry, rows are written in bulk.

So what comes out is what as many calls of a ledger would have written, without a synced write each;
opening it verifies all of it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, final

from sqlalchemy import Engine, insert

from curator.accounting.events.none import NoEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.ledger import connect, entries, rows, run_rows, schema
from curator.ledger.book import Book
from curator.ledger.chain import GENESIS, Entry
from curator.ledger.datasets_and_runs import DatasetRegistration, DatasetState, RunOpening, RunState
from curator.privacy.adjacency import Relation, Unit
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.facts import DatasetFacts

DATASET: Final = "d"
ANALYSTS: Final = 20
RECIPES: Final = 4
STILL_OPEN: Final = 20
STEPS: Final = 4096
HOLDER: Final = "host:1234:0123456789abcdef"
_PARAMETERS: Final = '{"capacity":96,"clip_norm":0.5,"noise_multiplier":1.0,"sampling_rate":0.0278}'
_PAGE: Final = 3000

FACTS: Final = DatasetFacts(
    name=DATASET,
    channels=1,
    height=28,
    width=28,
    max_level=255,
    classes=tuple("0123456789"),
    nominal_size=60_000,
    max_size=70_000,
    sampling_rate=1 / 1200,
    capacity=128,
    relation=Relation.ADD_OR_REMOVE,
    unit=Unit.RECORD,
    epsilon=20.0,
    delta=1e-6,
)


def opening(number: int, num_steps: int = STEPS) -> RunOpening:
    """Return a run; analysts and recipes take turns.

    Args:
        number: Of the run.
        num_steps: That it declares.
    """
    noise = 10.0 + number % RECIPES / 10
    step = SampledGaussianEvent(sampling_rate=SamplingRate.at_least(1e-6), noise_multiplier=noise)
    return RunOpening.of_events(
        run_id=f"{number:032x}",
        dataset=DATASET,
        analyst=analyst(number),
        mechanism="dp-sinkhorn",
        parameters_json=_PARAMETERS,
        setup_event=NoEvent(),
        step_event=step,
        num_steps=num_steps,
    )


def analyst(number: int) -> str:
    """Return whose run a number is of.

    Args:
        number: Of the run.
    """
    return f"analyst-{number % ANALYSTS}"


def build(engine: Engine, closed: int, marks: int) -> None:
    """Fill an empty database.

    Args:
        engine: A writer of it.
        closed: Runs that are opened and closed, after a few that stay open.
        marks: How often each run is charged.
    """
    registration = DatasetRegistration(
        name=DATASET,
        budget=FACTS.budget,
        adjacency=FACTS.adjacency,
        facts_json=FACTS.model_dump_json(),
    )
    builder = _Builder()
    builder.write(entries.DatasetRegistered.favouring(registration, None))
    with engine.begin() as connection:
        connect.create_tables(connection)
        rows.insert_dataset(connection, builder.book.dataset(DATASET))
    for number in range(STILL_OPEN + closed):
        builder.add_run(number, marks, is_closed=number >= STILL_OPEN)
        if len(builder.lines) >= _PAGE:
            builder.flush(engine)
    builder.flush(engine)
    with engine.begin() as connection:
        rows.save_totals(connection, {}, builder.book.totals)


@final
class _Builder:
    """The ledger so far, and the rows that are not in the database yet."""

    def __init__(self) -> None:
        self.book = Book()
        self.lines: list[dict[str, Any]] = []
        self._runs: list[dict[str, Any]] = []
        self._head = (0, GENESIS)
        self._at = datetime(2026, 1, 1, tzinfo=UTC)

    def write(self, event: entries.LedgerEvent) -> DatasetState | RunState:
        """Apply one change a second later than the last."""
        self._at += timedelta(seconds=1)
        at = self._at.isoformat()
        state = self.book.apply(event, at)
        entry = Entry.following(self._head, at, *entries.encode(event))
        self._head = (entry.seq, entry.digest)
        self.lines.append(entry._asdict())
        return state

    def add_run(self, number: int, marks: int, *, is_closed: bool) -> None:
        """Open a run, charge it, and close it."""
        asked = opening(number)
        state = self.write(entries.RunOpened(opening=asked, holder=HOLDER))
        event: dict[str, Any] = {"run_id": asked.run_id, "holder": HOLDER, "epoch": 1}
        for mark in range(1, marks + 1):
            state = self.write(entries.MarkAdvanced(**event, used=mark))
        if is_closed:
            state = self.write(entries.RunClosed(**event, used=marks, reason="by the analyst"))
            self.book.closed.clear()
        if isinstance(state, RunState):
            self._runs.append(run_rows.row_of(state))

    def flush(self, engine: Engine) -> None:
        """Write what is kept."""
        with engine.begin() as connection:
            connection.execute(insert(schema.entries), self.lines)
            if self._runs:
                connection.execute(insert(schema.runs), self._runs)
        self.lines.clear()
        self._runs.clear()
