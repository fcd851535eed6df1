"""Find a run of a caller, taking over what an earlier process left open."""

from __future__ import annotations

import re

from curator.errors import RunClosed, UnknownRun
from curator.ledger.ledger import Ledger, RunState
from curator.mechanisms.base import Kind
from curator.mechanisms.catalogue import parse_mechanism
from curator.privacy.facts import DatasetFacts
from curator.sanitizer.stored import decode_release
from curator.service.caller import Caller
from curator.service.live_run import LiveRun
from curator.service.runs import Runs
from curator.service.steward_policy import StewardPolicy
from curator.state.in_memory import StateInMemory

_RUN_ID = re.compile(r"[0-9a-f]{32}")  # as open_run makes them; nothing else meets a database


def run_of(ledger: Ledger, caller: Caller, run_id: str) -> RunState:
    """Return the ledger's record of a run.

    Raises:
        UnknownRun: If there is none, or it is another analyst's; the words are the same.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise UnknownRun
    state = ledger.run(run_id)
    if state.analyst != caller.name and not caller.sees_everything:
        raise UnknownRun
    return state


def facts_of_run(runs: Runs, caller: Caller, run_id: str) -> DatasetFacts:
    """Return the public facts of a run's data set, without asking the ledger for a live run.

    Returns:
        The facts that a step's tensors are checked against.

    Raises:
        UnknownRun: If the run is not the caller's.
    """
    live = runs.live.get(run_id)
    if live is not None and live.analyst == caller.name:
        return live.facts
    return runs.datasets.facts(run_of(runs.ledger, caller, run_id).dataset)


def live_run(runs: Runs, caller: Caller, run_id: str) -> LiveRun:
    """Return an open run as this process holds it.

    Args:
        runs: Of this process.
        caller: Who asks; only the owner of a run may use it.
        run_id: Which run.

    Returns:
        The live run; after a crash of the last holder its used steps are the durable mark.

    Raises:
        UnknownRun: If there is none, or it is not the caller's.
        RunClosed: If it was closed.
        DatasetOutOfService: If nobody holds it, and the stored images are damaged.
    """
    live = runs.live.get(run_id)
    if live is not None:
        if live.analyst != caller.name:
            raise UnknownRun
        return live
    with runs.lock:
        live = runs.live.get(run_id)
        if live is None:
            state = run_of(runs.ledger, caller, run_id)
            if state.analyst != caller.name:
                raise UnknownRun
            live = _adopt(runs, state)
            runs.live[run_id] = live
    return live


def _adopt(runs: Runs, state: RunState) -> LiveRun:
    """Take over an open run that no live process holds.

    Raises:
        RunClosed: If it is closed, or what it needs was lost with the process that had it: its one
            release, or the files of a mechanism's state.
        DatasetOutOfService: If the stored images are damaged; the run stays as it is.
    """
    if not state.is_open:
        raise RunClosed
    runs.datasets.get(state.dataset).check_in_service()
    state = runs.ledger.adopt_run(state.run_id, runs.holder)
    live = make_live(runs, state)
    if live.mechanism.kind is Kind.RELEASED_ONCE and live.released is None:
        runs.ledger.close_run(
            state.run_id, runs.holder, state.epoch, state.used, "release lost in a crash"
        )
        msg = "its one release was lost in a crash; what was charged is never noised again for free"
        raise RunClosed(msg)
    if live.mechanism.kind is Kind.STATEFUL and live.held is None:
        runs.ledger.close_run(state.run_id, runs.holder, state.epoch, state.used, "state lost")
        msg = "its state was lost with its files; what was not used is returned"
        raise RunClosed(msg)
    return live


def make_live(runs: Runs, state: RunState) -> LiveRun:
    """Build the holder's state of a run from the ledger's record.

    Returns:
        The live run, with its kept release if it has one.
    """
    dataset = runs.datasets.get(state.dataset)
    mechanism = parse_mechanism(state.mechanism, state.parameters_json, dataset.facts.space)
    payload = runs.ledger.setup_payload(state.run_id)
    statement = runs.ledger.statement(state.dataset)
    return LiveRun(
        run_id=state.run_id,
        analyst=state.analyst,
        epoch=state.epoch,
        num_steps=state.num_steps,
        mark=state.used,
        used=state.used,
        facts=dataset.facts,
        records=runs.datasets.records(state.dataset),
        policy=StewardPolicy.of(runs.ledger.dataset(state.dataset)),
        mechanism=mechanism,
        held=_held(runs, state) if mechanism.kind is Kind.STATEFUL else None,
        released=None if payload is None else decode_release(payload),
        spent_epsilon=statement.spent_epsilon,
        cap_epsilon=statement.cap,
        touched_at=runs.monotonic(),
    )


def _held(runs: Runs, state: RunState) -> StateInMemory | None:
    """Return what holds a run's private state, None if it was lost."""
    if runs.states is not None:
        kept = runs.states.open(state)
        return None if kept is None else StateInMemory(state.used, kept)
    return None if state.used else StateInMemory(0)


def resume_run(runs: Runs, caller: Caller, run_id: str) -> tuple[RunState, int]:
    """Return a run and the step that is expected next.

    Returns:
        The ledger's record, and the next step; for a closed run the step after the last used one.

    Raises:
        UnknownRun: If the run is not the caller's.
        RunClosed: If its one release was lost in a crash.
    """
    state = run_of(runs.ledger, caller, run_id)
    if not state.is_open or state.analyst != caller.name:
        return state, state.used + 1
    live = live_run(runs, caller, run_id)
    with live.lock:
        return run_of(runs.ledger, caller, run_id), live.used + 1
