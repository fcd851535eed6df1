"""Carry out one administrative command where the ledger is written."""

from __future__ import annotations

import shutil
from typing import Final

from curator.administration.commands import (
    Command,
    Erase,
    LowerCap,
    Pause,
    Register,
    Resume,
    Retire,
    SetPolicy,
    SetShare,
)
from curator.administration.lookup import check_analyst, known_dataset
from curator.administration.registered_images import complete_hashes, was_asked
from curator.folder import CuratorFolder
from curator.ledger.entries import CapLowered, Decision, PolicySet, ShareSet, StatusSet
from curator.ledger.ledger import DatasetRegistration, DatasetState, DatasetStatus
from curator.service.rehearsal import check_not_mixed
from curator.service.runs import Runs
from curator.service.steward_decisions import decide
from curator.service.steward_policy import StewardPolicy
from curator.state.folder import StateFolder

Decided = Pause | Resume | Retire | Erase | LowerCap | SetShare | SetPolicy
_STATUS: Final = {
    "pause": DatasetStatus.PAUSED,
    "resume": DatasetStatus.ACTIVE,
    "retire": DatasetStatus.RETIRED,
}
_NEVER_ASKED: Final = (
    "no run was ever opened on it, and the ledger says so: its images may be added again under "
    "another name"
)
_HASHES_STAY: Final = (
    "keyed hashes of the images stay in the folder's identity/image-hashes, by which the curator "
    "knows them if they come again"
)


class DecidedForEver(ValueError):
    """A decision about a data set on which nothing will be charged again."""


def execute(runs: Runs, folder: CuratorFolder, command: Command) -> tuple[str, ...]:
    """Carry a command out.

    Args:
        runs: Of this process, on the ledger; none if it does not serve.
        folder: Where the images are.
        command: What is asked.

    Raises:
        ValueError: If a rule or a number is not valid, or the command cannot follow what was
            decided before.
        NotThere: If there is no such data set or analyst.
        DecidedForEver: If the data set was retired or erased, and nothing can be allowed on it.
        LedgerUnavailable: If it may not be durable.
    """
    if isinstance(command, Register):
        facts = command.facts
        others = [state.registration.name for state in runs.ledger.datasets()]
        check_not_mixed([*others, facts.name])
        runs.ledger.register_dataset(
            DatasetRegistration(
                name=facts.name,
                budget=facts.budget,
                adjacency=facts.adjacency,
                facts_json=facts.model_dump_json(),
            ),
            command.favourite,
        )
        return (f"{facts.name} is registered",)
    status = known_dataset(runs.ledger, command.dataset).status
    if status.is_final and isinstance(command, SetShare | SetPolicy | LowerCap):
        msg = f"'{command.dataset}' is {status} for ever: nothing can be allowed or forbidden on it"
        raise DecidedForEver(msg)
    if isinstance(command, SetShare):
        check_analyst(folder, command.analyst)
    decision = _decision(runs, command)
    state = decide(runs, decision)
    lost: tuple[str, ...] = ()
    if isinstance(command, Erase):
        lost = complete_hashes(folder, command.dataset)
        shutil.rmtree(folder.images(command.dataset), ignore_errors=True)
        StateFolder(folder.states).forget_dataset(command.dataset)
        if isinstance(decision, StatusSet) and not decision.asked:
            lost += (_NEVER_ASKED,)
        lost = (_HASHES_STAY, *lost)
    return (*_told(runs, command, state), *lost)


def _decision(runs: Runs, command: Decided) -> Decision:
    name = command.dataset
    match command:
        case LowerCap(epsilon=epsilon, reason=reason):
            return CapLowered(dataset=name, epsilon=epsilon, reason=reason)
        case SetShare(analyst=analyst, epsilon=epsilon):
            return ShareSet(dataset=name, analyst=analyst, epsilon=epsilon)
        case SetPolicy(rules=rules):
            policy = StewardPolicy.of(runs.ledger.dataset(name)).changed(rules)
            return PolicySet(dataset=name, policy_json=policy.to_text())
        case Erase(reason=reason):
            asked = was_asked(runs.ledger, runs.ledger.dataset(name))
            return StatusSet(dataset=name, status=DatasetStatus.ERASED, reason=reason, asked=asked)
        case turn:
            return StatusSet(dataset=name, status=_STATUS[turn.kind], reason=turn.reason)


def _told(runs: Runs, command: Decided, state: DatasetState) -> list[str]:
    name = state.registration.name
    statement = runs.ledger.statement(name)
    spent = f"epsilon spent {statement.spent_epsilon:.4f} of {state.cap:g}"
    match command:
        case LowerCap() if statement.spent_epsilon > state.cap:
            return [f"{name}: {spent}: the cap is below what is spent, so no step is charged"]
        case LowerCap():
            return [f"{name}: {spent}, {statement.remaining_epsilon:.4f} left"]
        case SetShare(analyst=analyst, epsilon=epsilon):
            return [f"{name}: {analyst} may spend epsilon {epsilon:g}"]
        case SetPolicy():
            rules = StewardPolicy.of(state).rules()
            return [f"{name}: {rule} {value}" for rule, value in rules.items()] or [
                f"{name}: no rules"
            ]
        case Erase():
            return [
                f"{name}: erased; the ledger and {spent} stay",
                "backups of the images are not touched: erase them too",
            ]
        case _:
            return [f"{name}: {state.status}; {spent}"]
