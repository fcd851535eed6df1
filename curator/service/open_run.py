"""Open a run: reserve its whole declared cost, and make its one release if it has one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from curator.accounting.rule import BudgetRule
from curator.errors import (
    MalformedRequest,
    TooManyRuns,
    Unavailable,
    UnknownRun,
)
from curator.ledger.ledger import Ledger, RunOpening, RunState
from curator.mechanisms.base import Kind, ReleasedOnceMechanism
from curator.mechanisms.catalogue import canonical_json, parse_mechanism
from curator.privacy.event_numbers import check_num_steps
from curator.service.caller import Caller
from curator.service.checks import check_policy, check_state, check_step_size
from curator.service.fair_turns import working_for
from curator.service.find_run import make_live, run_of
from curator.service.live_run import LiveRun
from curator.service.one_release import give_up, make_release
from curator.service.runs import Runs
from curator.service.service import Service
from curator.service.steward_decisions import STOPPED
from curator.service.steward_policy import StewardPolicy

_KEY_LENGTHS = range(16, 129)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRequest:
    """What an analyst asks for."""

    dataset: str
    mechanism: str
    parameters_json: str
    num_steps: int
    idempotency_key: str


def open_run(service: Service, caller: Caller, request: RunRequest) -> RunState:
    """Open a run, or return the one that the same key opened before.

    Returns:
        The ledger's record of the run.

    Raises:
        UnknownDataset: If there is no such data set.
        MalformedRequest: If a parameter is not valid, or the key was used for another run.
        BudgetExhausted: If the rest of the budget, or of the caller's share of it, cannot afford
            the declared steps.
        BeyondDeclaration: If the data set was not declared for so much.
        PolicyRefused: If the steward's policy forbids it.
        TooManyRuns: If the caller has too many open runs.
        TooMuchState: If there is no room for what it would keep beside all open runs.
        DatasetPaused: If the steward has paused the data set.
        DatasetRetired: If the steward has retired it.
        DatasetOutOfService: If its stored images are damaged.
        Unavailable: If the one release of another run of the caller is being made.
        RunClosed: If the run was ended while its one release was made.
    """
    runs = service.runs
    with working_for(caller.name), service.desk.turn():
        run_id, live = _declared(service, caller, request)
    if live is not None:
        try:
            _prepare(service, live)
        finally:
            live.touched_at = runs.monotonic()  # it was not idle meanwhile
            runs.setups.finish(live)
            live.lock.release()
    elif (twin := runs.live.get(run_id)) is not None:
        with twin.lock:
            pass
    return run_of(runs.ledger, caller, run_id)


def _declared(service: Service, caller: Caller, request: RunRequest) -> tuple[str, LiveRun | None]:
    """Check what is asked and reserve it; what takes long comes after.

    Returns:
        The run's id, and the run if it is new: its lock is held.

    Raises:
        DatasetPaused: If the steward has paused the data set.
        DatasetRetired: If the steward has retired or erased it.
        MalformedRequest: If a parameter is not valid, or the key was used for another run.
    """
    runs = service.runs
    runs.check_holder()
    dataset = runs.datasets.get(request.dataset)
    dataset.check_in_service()
    state = runs.ledger.dataset(request.dataset)
    run_id = _run_id(caller, request.idempotency_key)
    if state.status in STOPPED and _find(runs.ledger, run_id) is None:
        raise STOPPED[state.status]  # first: no other numbers would help
    mechanism = parse_mechanism(request.mechanism, request.parameters_json, dataset.facts.space)
    check_policy(mechanism, dataset.facts)
    policy = StewardPolicy.of(state)
    policy.check_mechanism(request.mechanism, mechanism)
    check_step_size(service.limits, mechanism)
    try:
        check_num_steps(request.num_steps)
    except ValueError as error:
        raise MalformedRequest(str(error)) from None
    opening = RunOpening.of_events(
        run_id=run_id,
        dataset=request.dataset,
        analyst=caller.name,
        mechanism=request.mechanism,
        parameters_json=canonical_json(mechanism.spec),
        setup_event=mechanism.setup_event(),
        step_event=mechanism.step_event(),
        num_steps=request.num_steps,
    )
    live = None
    with runs.lock:
        existing = _find(runs.ledger, opening.run_id)
        if existing is not None and not _is_same(existing, opening):
            msg = "idempotency_key was used for another run"
            raise MalformedRequest(msg)
        if existing is None:
            _check_number(service, policy, opening, state.rule)
            space = dataset.facts.space
            check_state(runs, service.limits, caller.name, mechanism.spec, space)
            live = _begun(runs, opening, makes_release=mechanism.kind is Kind.RELEASED_ONCE)
    return opening.run_id, live


def _begun(runs: Runs, opening: RunOpening, *, makes_release: bool) -> LiveRun:
    """Open a run in the ledger and here; its lock is held, so that steps and twins wait for it.

    Raises:
        Unavailable: If it makes a release and another one of the analyst is being made.
    """
    if makes_release:
        runs.setups.refuse_second(opening.analyst)
    live = make_live(runs, runs.ledger.open_run(opening, runs.holder))
    live.lock.acquire()
    if makes_release:
        # first: whoever finds the run knows not to wait for its lock
        runs.setups.begin(live, runs.monotonic())
    runs.live[live.run_id] = live
    return live


def _prepare(service: Service, live: LiveRun) -> None:
    """Make what a run has before its first step, where heavy work is bounded and of equal time.

    Raises:
        CuratorError: If it could not be made, or not be charged; the run is closed.
        Unavailable: If the curator is being taken down; nothing was charged.
    """
    if not isinstance(live.mechanism, ReleasedOnceMechanism):
        return
    runs, noise = service.runs, service.computing.noise
    try:
        with working_for(live.analyst):
            made = service.computing.apart.submit(make_release, runs, noise, live, live.mechanism)
    except RuntimeError:
        give_up(runs, live, "the curator was stopped before its release was made")
        raise Unavailable from None
    made.result()


def _check_number(
    service: Service, policy: StewardPolicy, opening: RunOpening, registered: BudgetRule
) -> None:
    """Check what depends on the caller's other runs.

    Raises:
        TooManyRuns: If there are as many open ones as this curator allows.
        PolicyRefused: If the steward's policy says no.
    """
    mine = service.runs.ledger.open_runs(analyst=opening.analyst)
    if len(mine) >= service.limits.max_open_runs:
        msg = f"at most {service.limits.max_open_runs} here"
        raise TooManyRuns(msg)
    here = sum(run.dataset == opening.dataset for run in mine)
    policy.check_opening(opening, registered, here)


def _run_id(caller: Caller, key: str) -> str:
    """Derive the run id, so that a repeated request finds the run it opened.

    Raises:
        MalformedRequest: If the key is too short to be unique, or too long.
    """
    if len(key) not in _KEY_LENGTHS:
        msg = "idempotency_key must have 16 to 128 characters"
        raise MalformedRequest(msg)
    return hashlib.sha256(f"{caller.name}\0{key}".encode()).hexdigest()[:32]


def _find(ledger: Ledger, run_id: str) -> RunState | None:
    try:
        return ledger.run(run_id)
    except UnknownRun:
        return None


def _is_same(state: RunState, opening: RunOpening) -> bool:
    fields = ("dataset", "analyst", "mechanism", "parameters_json", "num_steps")
    return all(getattr(state, name) == getattr(opening, name) for name in fields)
