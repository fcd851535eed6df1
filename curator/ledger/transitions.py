"""What a decision makes of a data set, and what an event makes of a run: pure, and total."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from curator.errors import RunClosed
from curator.ledger import entries
from curator.ledger.datasets_and_runs import (
    NOBODY,
    DatasetState,
    DatasetStatus,
    RunState,
    RunStatus,
)
from curator.ledger.problems import HolderLost, LedgerConflict

FOLLOWERS: Final = {
    DatasetStatus.ACTIVE: {DatasetStatus.PAUSED, DatasetStatus.RETIRED, DatasetStatus.ERASED},
    DatasetStatus.PAUSED: {DatasetStatus.ACTIVE, DatasetStatus.RETIRED, DatasetStatus.ERASED},
    DatasetStatus.RETIRED: {DatasetStatus.ERASED},
    DatasetStatus.ERASED: set[DatasetStatus](),
}


def decided(state: DatasetState, decision: entries.Decision) -> DatasetState:
    """Return the data set after a decision of the steward.

    Raises:
        LedgerConflict: If a cap would rise, is no budget, or a retired data set would come back.
    """
    match decision:
        case entries.CapLowered(epsilon=epsilon):
            words = f"a cap is positive and only falls: it is {state.cap:g} now"
            _require(holds=0 < epsilon <= state.cap, otherwise=words)
            return replace(state, cap=epsilon)
        case entries.ShareSet(analyst=analyst, epsilon=epsilon):
            _require(
                holds=0 < epsilon <= state.rule.budget.epsilon,
                otherwise="an analyst's share is above 0 and at most the data set's budget of "
                f"{state.rule.budget.epsilon:g}",
            )
            shares = {**dict(state.shares), analyst: epsilon}
            return replace(state, shares=tuple(sorted(shares.items())))
        case entries.PolicySet(policy_json=policy_json):
            return replace(state, policy_json=policy_json)
        case entries.StatusSet(status=status, asked=asked):
            _require(
                holds=asked or status is DatasetStatus.ERASED,
                otherwise="only of an erased data set is it written that no run was opened",
            )
            _require(
                holds=status in FOLLOWERS[state.status],
                otherwise=f"the data set is {state.status}"
                + (" already" if status is state.status else f", and does not become {status}"),
            )
            return replace(state, status=status)
        case entries.SpendAdded(cost=cost):
            return replace(state, added=state.added + cost)
        case _ as never:
            assert_never(never)


def after(run: RunState, event: entries.RunEvent, at: str) -> RunState:
    """Return the run after `event`.

    Raises:
        RunClosed: If the run is closed, or steps past the declared ones are asked for.
        HolderLost: If the event is not by the run's holder in the present epoch.
        LedgerConflict: If the event cannot follow the run's state.
    """
    if not run.is_open:
        raise RunClosed
    if not isinstance(event, entries.RunAdopted) and not _is_held(run, event.holder, event.epoch):
        raise HolderLost
    match event:
        case entries.RunAdopted(holder=holder):
            return replace(run, holder=holder, epoch=run.epoch + 1, answered=run.used)
        case entries.MarkAdvanced(used=used):
            return _advanced(run, used)
        case entries.SetupBegun():
            _require(holds=not run.setup_begun, otherwise="the setup has begun before")
            return replace(run, setup_begun=True)
        case entries.SetupStored(digest=digest):
            _require(holds=run.setup_begun, otherwise="the setup has not begun")
            _require(holds=not run.setup_digest, otherwise="the setup is stored already")
            return replace(run, setup_digest=digest)
        case entries.RunRelinquished() | entries.RunClosed() as end:
            return _let_go(run, end, at)
        case _ as never:
            assert_never(never)


def _is_held(run: RunState, holder: str, epoch: int) -> bool:
    """Whether this holder may change a run; nobody may until it is adopted if nobody holds it."""
    return run.holder != NOBODY and (holder, epoch) == (run.holder, run.epoch)


def _let_go(run: RunState, end: entries.RunRelinquished | entries.RunClosed, at: str) -> RunState:
    _require(
        holds=type(end.used) is int and run.answered <= end.used <= run.used,
        otherwise="a run is closed or relinquished between what was answered and its mark",
    )
    if isinstance(end, entries.RunRelinquished):
        return replace(run, used=end.used, holder=NOBODY)
    return replace(
        run, used=end.used, status=RunStatus.CLOSED, close_reason=end.reason, closed_at=at
    )


def _advanced(run: RunState, used: int) -> RunState:
    _require(
        holds=type(used) is int and used >= run.used, otherwise="the mark of a run never falls"
    )
    _require(
        holds=run.setup_begun or run.setup.is_zero,
        otherwise="the setup of a run is charged before its steps",
    )
    if used > run.num_steps:
        raise RunClosed
    return replace(run, used=used)


def _require(*, holds: bool, otherwise: str) -> None:
    if not holds:
        raise LedgerConflict(otherwise)
