"""The things that can happen to a ledger, each a frozen value with one canonical text."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final, Self

from curator.accounting.cost import Cost
from curator.accounting.rule import BudgetRule
from curator.ledger.chain import canonical_json
from curator.ledger.datasets_and_runs import DatasetRegistration, DatasetStatus, RunOpening
from curator.privacy.adjacency import Adjacency, Relation, Unit
from curator.privacy.budget import Budget


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetRegistered:
    """A data set's cap and rule were fixed."""

    registration: DatasetRegistration
    rule: BudgetRule

    @classmethod
    def favouring(cls, registration: DatasetRegistration, favourite: float | None) -> Self:
        """Fix the rule of a data set's budget; see `BudgetRule.register`."""
        rule = BudgetRule.register(registration.budget, favourite)
        return cls(registration=registration, rule=rule)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOpened:
    """A run's whole declared cost was reserved."""

    opening: RunOpening
    holder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunAdopted:
    """Another process took a run over."""

    run_id: str
    holder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkAdvanced:
    """Steps were counted as used."""

    run_id: str
    holder: str
    epoch: int
    used: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SetupBegun:
    """The setup was charged."""

    run_id: str
    holder: str
    epoch: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SetupStored:
    """What the setup released was kept."""

    run_id: str
    holder: str
    epoch: int
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRelinquished:
    """A run's holder let go of it; the steps that it had charged and not begun came back."""

    run_id: str
    holder: str
    epoch: int
    used: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunClosed:
    """A run ended; what it did not use returned to the budget."""

    run_id: str
    holder: str
    epoch: int
    used: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CapLowered:
    """The steward allows less of the budget from now on."""

    dataset: str
    epsilon: float
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareSet:
    """The steward gave an analyst a cap of its own."""

    dataset: str
    analyst: str
    epsilon: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicySet:
    """The steward decided what a run may ask for; the text is the service's."""

    dataset: str
    policy_json: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusSet:
    """The steward paused, resumed, retired or erased a data set.

    `asked` is False where it was erased and, as the ledger shows, no run was ever opened on it; an
    entry that does not say so is written without it, as all were before.
    """

    dataset: str
    status: DatasetStatus
    reason: str
    asked: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class SpendAdded:
    """An older copy of the ledger was accepted; this is what it may have forgotten."""

    dataset: str
    cost: Cost
    reason: str


RunEvent = RunAdopted | MarkAdvanced | SetupBegun | SetupStored | RunRelinquished | RunClosed
Decision = CapLowered | ShareSet | PolicySet | StatusSet | SpendAdded
LedgerEvent = DatasetRegistered | RunOpened | RunEvent | Decision

_DATASET: Final = "dataset-registered"
_OPENED: Final = "run-opened"
_RUN_EVENTS: Final[dict[str, type[RunEvent]]] = {
    "run-adopted": RunAdopted,
    "mark-advanced": MarkAdvanced,
    "setup-begun": SetupBegun,
    "setup-stored": SetupStored,
    "run-relinquished": RunRelinquished,
    "run-closed": RunClosed,
}
_DECISIONS: Final[dict[str, type[Decision]]] = {
    "cap-lowered": CapLowered,
    "share-set": ShareSet,
    "policy-set": PolicySet,
    "status-set": StatusSet,
    "spend-added": SpendAdded,
}
_KINDS: Final[dict[str, type[RunEvent | Decision]]] = {**_RUN_EVENTS, **_DECISIONS}
_TYPES: Final = {
    record: tuple((item.name, item.type) for item in fields(record))
    for record in (RunOpening, RunOpened, *_KINDS.values())
}
_KIND_OF: Final = {kind_type: kind for kind, kind_type in _KINDS.items()}


def encode(event: LedgerEvent) -> tuple[str, str]:
    """Return the kind and the canonical JSON body of what happened."""
    match event:
        case DatasetRegistered(registration=registration, rule=rule):
            return _DATASET, canonical_json(
                {**dataset_fields(registration), "rule": rule.to_json()}
            )
        case RunOpened(opening=opening, holder=holder):
            return _OPENED, canonical_json({**opening_fields(opening), "holder": holder})
        case SpendAdded() as added:
            plain = {**_plain(added), "cost": added.cost.to_json()}
            return _KIND_OF[SpendAdded], canonical_json(plain)
        case StatusSet(asked=True) as status_set:
            plain = _plain(status_set)
            del plain["asked"]
            return _KIND_OF[StatusSet], canonical_json(plain)
        case event:
            return _KIND_OF[type(event)], canonical_json(_plain(event))


def decode(kind: str, body: str) -> LedgerEvent:
    """Return what `encode` wrote.

    Raises:
        ValueError: If the kind is unknown or a field is missing, unknown or of another type.
    """
    try:
        value = json.loads(body)
        if kind == _DATASET:
            rule = BudgetRule.from_json(value.pop("rule"))
            return DatasetRegistered(registration=registration_from(value), rule=rule)
        if kind == _OPENED:
            holder = value.pop("holder")
            return RunOpened(**_typed(RunOpened, {"opening": _opening(value), "holder": holder}))
        happened = _KINDS[kind]
        if happened is SpendAdded:
            value["cost"] = Cost.from_json(value["cost"])
        if happened is StatusSet:
            value["status"] = DatasetStatus(value["status"])
            value.setdefault("asked", True)
        return happened(**_typed(happened, value))
    except (KeyError, TypeError, AttributeError) as error:
        msg = f"not an entry of kind {kind!r} that this version knows"
        raise ValueError(msg) from error


def dataset_fields(registration: DatasetRegistration) -> dict[str, object]:
    """Return a registration as plain values."""
    return {
        "name": registration.name,
        "epsilon": registration.budget.epsilon,
        "delta": registration.budget.delta,
        "relation": str(registration.adjacency.relation),
        "unit": str(registration.adjacency.unit),
        "facts_json": registration.facts_json,
    }


def opening_fields(opening: RunOpening) -> dict[str, object]:
    """Return an opening as plain values, its costs as decimal text."""
    return {**_plain(opening), "setup": opening.setup.to_json(), "step": opening.step.to_json()}


def _plain(record: RunOpening | RunEvent | Decision) -> dict[str, object]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def registration_from(value: dict[str, Any]) -> DatasetRegistration:
    """Return a registration; it must be written as `dataset_fields` writes it.

    Raises:
        TypeError: If a field is unknown or has another type.
    """
    registration = DatasetRegistration(
        name=value["name"],
        budget=Budget(epsilon=value["epsilon"], delta=value["delta"]),
        adjacency=Adjacency(relation=Relation(value["relation"]), unit=Unit(value["unit"])),
        facts_json=value["facts_json"],
    )
    texts = (registration.name, registration.facts_json)
    if dataset_fields(registration) != value or not all(isinstance(text, str) for text in texts):
        raise TypeError
    return registration


def _opening(value: dict[str, Any]) -> RunOpening:
    setup, step = (_cost(tuple(value.pop(name))) for name in ("setup", "step"))
    plain = _typed(RunOpening, {**value, "setup": setup, "step": step})
    return RunOpening(**plain)


@lru_cache(maxsize=1024)
def _cost(items: tuple[object, ...]) -> Cost:
    return Cost.from_json(items)


def _typed(
    record: type[RunOpening | RunOpened | RunEvent | Decision], value: dict[str, Any]
) -> dict[str, Any]:
    """Return `value` if each field of `record` has exactly its declared type.

    Raises:
        TypeError: If one has another.
    """
    for name, declared in _TYPES[record]:
        if type(value[name]).__name__ != declared:
            raise TypeError(name)
    return value
