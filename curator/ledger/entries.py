"""The seven things that can happen to a ledger, each a frozen value with one canonical text."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from curator.accounting.cost import Cost
from curator.accounting.rule import BudgetRule
from curator.ledger.chain import canonical_json
from curator.ledger.records import DatasetRegistration, RunOpening
from curator.privacy.adjacency import Adjacency, Relation, Unit
from curator.privacy.budget import Budget


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetRegistered:
    """A data set's cap and rule were fixed."""

    registration: DatasetRegistration
    rule: BudgetRule


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
class RunClosed:
    """A run ended; what it did not use returned to the budget."""

    run_id: str
    holder: str
    epoch: int
    used: int
    reason: str


RunEvent = RunAdopted | MarkAdvanced | SetupBegun | SetupStored | RunClosed
Happening = DatasetRegistered | RunOpened | RunEvent

_DATASET: Final = "dataset-registered"
_OPENED: Final = "run-opened"
_RUN_EVENTS: Final[dict[str, type[RunEvent]]] = {
    "run-adopted": RunAdopted,
    "mark-advanced": MarkAdvanced,
    "setup-begun": SetupBegun,
    "setup-stored": SetupStored,
    "run-closed": RunClosed,
}
_KIND_OF: Final = {kind_type: kind for kind, kind_type in _RUN_EVENTS.items()}


def encode(happening: Happening) -> tuple[str, str]:
    """Return the kind and the canonical JSON body of what happened."""
    match happening:
        case DatasetRegistered(registration=registration, rule=rule):
            return _DATASET, canonical_json(
                {**dataset_fields(registration), "rule": rule.to_json()}
            )
        case RunOpened(opening=opening, holder=holder):
            return _OPENED, canonical_json({**opening_fields(opening), "holder": holder})
        case event:
            return _KIND_OF[type(event)], canonical_json(asdict(event))


def decode(kind: str, body: str) -> Happening:
    """Return what `encode` wrote.

    Raises:
        ValueError: If the kind is unknown or a field is missing, unknown or of another type.
    """
    try:
        value = json.loads(body)
        if kind == _DATASET:
            rule = BudgetRule.from_json(value.pop("rule"))
            return DatasetRegistered(registration=_registration(value), rule=rule)
        if kind == _OPENED:
            holder = value.pop("holder")
            return RunOpened(**_typed(RunOpened, {"opening": _opening(value), "holder": holder}))
        happened = _RUN_EVENTS[kind]
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
    plain = {field.name: getattr(opening, field.name) for field in fields(opening)}
    return {**plain, "setup": opening.setup.to_json(), "step": opening.step.to_json()}


def _registration(value: dict[str, Any]) -> DatasetRegistration:
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
    setup, step = Cost.from_json(value.pop("setup")), Cost.from_json(value.pop("step"))
    plain = _typed(RunOpening, {**value, "setup": setup, "step": step})
    return RunOpening(**plain)


def _typed(
    record: type[RunOpening | RunOpened | RunEvent], value: dict[str, Any]
) -> dict[str, Any]:
    """Return `value` if each field of `record` has exactly its declared type.

    Raises:
        TypeError: If one has another.
    """
    for item in fields(record):
        if type(value[item.name]).__name__ != item.type:
            raise TypeError(item.name)
    return value
