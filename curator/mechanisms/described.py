"""A run as someone describes it in a file: what it costs is asked of the mechanism that is named.

Two layouts: {"mechanism": name, "parameters": {...}, "num_steps": n, "epsilon": e, "delta": d}, and
an analyst's recipe, with tables `mechanism` (holding `kind`) and `training` (holding `steps`). In
the first the name may be an event's, as ledgers write it, and the parameters its numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, Final

from curator.accounting.event_text import EVENTS, lone_event
from curator.accounting.events.base import LoneEvent, PrivacyEvent
from curator.accounting.events.none import NoEvent
from curator.accounting.explain import DescribedRun
from curator.accounting.overflow import overflow_probability
from curator.errors import MalformedRequest
from curator.mechanisms.catalogue import MECHANISMS, mechanism_names, read_specification
from curator.mechanisms.specification import BoundedSpecification, Specification
from curator.privacy.batches import ImageSpace
from curator.privacy.budget import Budget
from curator.privacy.event_numbers import SamplingRate, check_dimension, check_num_steps

_OVERRIDABLE: Final = ("num_steps", "epsilon", "delta", "nominal_size", "dimension", "capacity")
_OF_DATASET: Final = ("nominal_size", "dimension", "capacity")
_LARGEST: Final = 1e18
_OPTIONS: Final = {
    "epsilon": "the cap of the data set's budget, which the ledger's rule needs",
    "delta": "of the same budget",
    "nominal_size": "the data set's, to which expected_batch_size refers",
    "dimension": "pixels and classes of a row",
    "capacity": "rows that a private batch of the data set is padded to",
}
_OF_BUDGET: Final = ("epsilon", "delta")
_STAND_INS: Final = {
    "epsilon": 1.0,
    "delta": 1e-5,
    "nominal_size": 10**9,
    "dimension": 785,
    "sampling_rate": 0.5,
}
_STANDS_IN: Final[float] = 1 << 16  # a capacity, or whatever else is missing
_ANY_IMAGE: Final = ImageSpace(channels=1, height=28, width=28, max_level=255, num_classes=10)


class MissingValue(ValueError):
    """A value that a description lacks; the text says where it may be given."""

    def __init__(self, key: str, section: str) -> None:
        """Name the key.

        Args:
            key: What is missing.
            section: Where the description would have it.
        """
        where = f"add it to {section}"
        if key in _OPTIONS:
            where = f"give --{key.replace('_', '-')} ({_OPTIONS[key]})"
        super().__init__(f"{key} is missing: {where}")
        self.key = key


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """A description with its numbers checked, but for those of the mechanism.

    `is_recipe` is whether `parameters` hold what only an analyst uses, too. `num_steps` is None for
    all that the budget affords.
    """

    name: str
    parameters: Mapping[str, Any]
    is_recipe: bool
    num_steps: int | None
    budget: Budget

    def need(self, key: str) -> Any:
        """Return a parameter.

        Raises:
            MissingValue: If it is missing.
        """
        if self.parameters.get(key) is None:
            where = "[mechanism] of the recipe" if self.is_recipe else '"parameters"'
            raise MissingValue(key, where)
        return self.parameters[key]

    def number(self, key: str) -> float:
        """Return a numeric parameter.

        Raises:
            ValueError: If it is missing, not a number or absurdly large.
        """
        value = self.need(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            msg = f"{key} must be a number"
            raise ValueError(msg)  # noqa: TRY004
        if not abs(value) <= _LARGEST:  # NaN fails too
            msg = f"{key} must be finite and at most {_LARGEST:g}"
            raise ValueError(msg)
        return value

    @property
    def rate(self) -> SamplingRate:
        """The sampling rate, as it is given or from a batch size.

        Raises:
            ValueError: If neither is given, or a number is not valid.
        """
        if self.parameters.get("sampling_rate") is not None:
            return SamplingRate.at_least(self.number("sampling_rate"))
        if self.parameters.get("expected_batch_size") is None:
            self.need("sampling_rate")
        if not self.number("nominal_size"):
            msg = "nominal_size must not be 0"
            raise ValueError(msg)
        share = self.number("expected_batch_size") / self.number("nominal_size")
        return SamplingRate.at_least(share)


def read_description(table: Mapping[str, Any], overrides: Mapping[str, Any]) -> Description:
    """Read a description in either layout.

    Args:
        table: The description.
        overrides: `num_steps`, `epsilon`, `delta`, `nominal_size`, `dimension` and `capacity` from
            elsewhere; None is absent.

    Raises:
        MissingValue: If epsilon or delta is missing.
        ValueError: If something is unknown or out of range; the text names it.
    """
    given = {**_flat(table), **{k: v for k, v in overrides.items() if v is not None}}
    parameters = given["parameters"]
    if not isinstance(parameters, Mapping):
        msg = "parameters: expected a table"
        raise ValueError(msg)  # noqa: TRY004
    num_steps = given.get("num_steps", "all")
    if num_steps != "all":
        check_num_steps(num_steps)
    for key in _OF_BUDGET:
        if key not in given:
            raise MissingValue(key, "the description")
    shared = {key: given[key] for key in _OF_DATASET if given.get(key) is not None}
    return Description(
        name=str(given.get("mechanism")),
        parameters={**shared, **{k: v for k, v in parameters.items() if v is not None}},
        is_recipe=isinstance(table.get("mechanism"), Mapping),
        num_steps=None if num_steps == "all" else num_steps,
        budget=Budget(epsilon=given["epsilon"], delta=given["delta"]),
    )


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first layout from either.

    Raises:
        ValueError: If the keys are those of neither.
    """
    mechanism = table.get("mechanism")
    if isinstance(mechanism, Mapping):
        training = table.get("training")
        steps = training.get("steps", "all") if isinstance(training, Mapping) else "all"
        parameters = {key: value for key, value in mechanism.items() if key != "kind"}
        return {"mechanism": mechanism.get("kind"), "parameters": parameters, "num_steps": steps}
    unknown = sorted(set(table) - {"mechanism", "parameters", *_OVERRIDABLE})
    if unknown:
        msg = (
            f"unknown: {', '.join(map(str, unknown))[:200]}; what belongs to the mechanism goes "
            'into "parameters"'
        )
        raise ValueError(msg)
    return {"parameters": {}, **table}


def read_described(table: Mapping[str, Any], overrides: Mapping[str, Any]) -> DescribedRun:
    """Return what a described run releases, asked of its mechanism.

    Raises:
        ValueError: If the mechanism is not known or does not take the parameters, or something is
            missing: the text names all that is.
        MissingValue: If one thing is missing whatever stands in for it.
    """
    lacking: dict[str, str] = {}
    while True:
        stand_ins = {key: _STAND_INS.get(key, _STANDS_IN) for key in lacking}
        try:
            run = _described(table, overrides, stand_ins)
            if not lacking:
                return run
        except MissingValue as missing:
            if missing.key in lacking:
                raise
            lacking[missing.key] = str(missing)
            continue
        except ValueError as problem:
            if not lacking:
                raise
            lacking["else"] = str(problem)
        raise ValueError("; ".join(lacking.values()))


def _described(
    table: Mapping[str, Any], overrides: Mapping[str, Any], stand_ins: Mapping[str, Any]
) -> DescribedRun:
    """Return what a described run releases, with numbers in the places of those that it lacks."""
    shown = {key: value for key, value in stand_ins.items() if key in _OPTIONS}
    description = read_description(table, {**overrides, **shown})
    parameters = {key: value for key, value in stand_ins.items() if key not in _OF_BUDGET}
    description = replace(description, parameters={**description.parameters, **parameters})
    sensitivity, setup, step = _asked(description)
    return DescribedRun(
        mechanism=description.name,
        sensitivity=sensitivity,
        setup=setup,
        step=step,
        num_steps=description.num_steps,
        budget=description.budget,
    )


def _asked(description: Description) -> tuple[str, PrivacyEvent, PrivacyEvent]:
    """Return the sensitivity in words, the setup and the step.

    Raises:
        ValueError: If the mechanism is not known, or does not take the parameters.
    """
    event = next((one for one in EVENTS if one.name == description.name), None)
    if event is not None:
        return "as declared, in the noise multiplier", NoEvent(), _event(event, description)
    mechanism = next((one for one in MECHANISMS if one.name == description.name), None)
    if mechanism is None:
        known = sorted([*(one.name for one in EVENTS), *mechanism_names()])
        near = get_close_matches(description.name, known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        msg = f"mechanism: expected one of {', '.join(known)}{meant}"
        raise ValueError(msg)
    space = _space(description) if mechanism.prices_by_image else _ANY_IMAGE
    try:
        text = json.dumps(_as_sent(mechanism.specification, description))
        spec = read_specification(mechanism.name, text)
    except MalformedRequest as refused:
        raise ValueError(str(refused)) from None
    except TypeError:
        msg = "parameters: expected numbers, text and lists"
        raise ValueError(msg) from None
    return mechanism.sensitivity, *mechanism.costs_of(spec, space)


def _as_sent(specification: type[Specification], description: Description) -> dict[str, Any]:
    """Return the parameters that an analyst would send.

    Of a recipe, what the specification does not know is the analyst's own; else it says so itself.
    """
    known, given = specification.model_fields, dict(description.parameters)
    if "sampling_rate" in known and "sampling_rate" not in given:
        given["sampling_rate"] = float(description.rate)
    if issubclass(specification, BoundedSpecification):
        given["capacity"] = description.need("capacity")
    elif "capacity" in known:
        given.setdefault("capacity", 1)  # the price is the same whatever the data set's is
    other = {*_OF_DATASET, "expected_batch_size", *(given if description.is_recipe else ())}
    return {key: value for key, value in given.items() if key in known or key not in other}


def _space(description: Description) -> ImageSpace:
    """Return images of the described size, in one row.

    Raises:
        ValueError: If it is not given, or too small for a pixel and a class.
    """
    dimension = description.need("dimension")
    check_dimension("dimension", dimension)
    return ImageSpace(channels=1, height=1, width=dimension - 1, max_level=255, num_classes=1)


def _event(event: type[LoneEvent], description: Description) -> LoneEvent:
    """Return an event with the described numbers.

    Raises:
        ValueError: If one is missing or out of range.
    """
    names = {field.name for field in fields(event)}  # type: ignore[arg-type]
    value = {**description.parameters, "event": event.name}
    if "sampling_rate" in names:
        value["sampling_rate"] = str(description.rate.numerator)
    if "overflow_probability" in names and "overflow_probability" not in value:
        sizes = description.need("max_size"), description.need("capacity")
        value["overflow_probability"] = overflow_probability(sizes[0], description.rate, sizes[1])
    try:
        return lone_event(value)
    except KeyError as missing:
        return description.need(missing.args[0])  # type: ignore[no-any-return] # raises
