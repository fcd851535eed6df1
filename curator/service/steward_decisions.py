"""What the steward decides about a data set: written first, then made true in this process."""

from __future__ import annotations

import logging
from typing import Final

from curator.errors import CuratorError, DatasetPaused, DatasetRetired
from curator.ledger.entries import Decision, PolicySet, StatusSet
from curator.ledger.ledger import DatasetState, DatasetStatus, RunState
from curator.service.end_runs import end_run
from curator.service.runs import Runs
from curator.service.steward_policy import StewardPolicy

_logger = logging.getLogger(__name__)
STOPPED: Final = {
    DatasetStatus.PAUSED: DatasetPaused,
    DatasetStatus.RETIRED: DatasetRetired,
    DatasetStatus.ERASED: DatasetRetired,
}


def decide(runs: Runs, decision: Decision) -> DatasetState:
    """Write a decision; from then on no process charges anything against it.

    Returns:
        The data set as the ledger has it now.

    Raises:
        UnknownDataset: If there is no such data set.
        LedgerConflict: If the decision cannot follow what was decided before.
        LedgerUnavailable: If it may not be durable.
    """
    state = runs.ledger.decide(decision)
    if isinstance(decision, StatusSet):
        _follow(runs, decision)
    if isinstance(decision, PolicySet):
        for live in list(runs.live.values()):
            if live.facts.name == decision.dataset:
                live.policy = StewardPolicy.of(state)
    return state


def _follow(runs: Runs, decision: StatusSet) -> None:
    name, status = decision.dataset, decision.status
    stopped = STOPPED.get(status)
    if stopped is None:
        runs.datasets.stopped.pop(name, None)
        return
    runs.datasets.stopped[name] = stopped
    if status is DatasetStatus.PAUSED:
        return
    for run in runs.ledger.open_runs(dataset=name):
        _end(runs, run, f"closed: the data set was {status}")
    if status is DatasetStatus.ERASED:
        runs.datasets.erase(name)


def _end(runs: Runs, run: RunState, reason: str) -> None:
    """End an open run; one that another curator holds ends there, and takes no charge meanwhile."""
    try:
        end_run(runs, run, reason)
    except CuratorError:
        _logger.warning("a run of a retired data set could not be closed here")
