"""What the steward allows runs to ask of one data set: rules, each with a name and a number."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from curator.accounting.cost import Cost
from curator.accounting.rule import BudgetRule
from curator.errors import PolicyRefused
from curator.ledger.datasets_and_runs import DatasetState, RunOpening, allotment_rule
from curator.privacy.event_numbers import SamplingRate
from curator.validation_errors import in_plain_words

if TYPE_CHECKING:
    from curator.mechanisms.base import ServedMechanism  # torch


class StewardPolicy(BaseModel):
    """The rules; None is no rule. The ledger keeps the text, so an auditor sees every change."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    mechanisms: tuple[str, ...] | None = Field(default=None, min_length=1, strict=False)
    min_noise_multiplier: float | None = Field(default=None, gt=0)
    max_sampling_rate: float | None = Field(default=None, gt=0, le=1)
    max_capacity: int | None = Field(default=None, ge=1)
    max_images: int | None = Field(default=None, ge=1)
    max_steps: int | None = Field(default=None, ge=1)
    max_steps_per_second: float | None = Field(default=None, gt=0)
    max_epsilon_per_run: float | None = Field(default=None, gt=0)
    max_open_runs: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.mechanisms is not None:
            from curator.mechanisms.catalogue import (
                mechanism_names,
            )  # torch, for a rule that few have

            if set(self.mechanisms) - set(mechanism_names()):
                msg = f"mechanisms are {', '.join(mechanism_names())}"
                raise ValueError(msg)
        return self

    @classmethod
    def of(cls, state: DatasetState) -> Self:
        """Return the policy of a data set."""
        return cls.model_validate_json(state.policy_json)

    def to_text(self) -> str:
        """Return the text that the ledger keeps: the rules that there are, in order of name."""
        return self.model_dump_json(exclude_none=True)

    def rules(self) -> dict[str, str]:
        """Return each rule that there is, as text for people."""
        values = self.model_dump(exclude_none=True)
        return {
            name: ", ".join(value) if name == "mechanisms" else f"{value:g}"
            for name, value in values.items()
        }

    def changed(self, rules: dict[str, object]) -> StewardPolicy:
        """Return the policy with some rules set, or cleared with None.

        Raises:
            ValueError: If a name is unknown or a value is not valid; the text says which.
        """
        try:
            return StewardPolicy.model_validate({**self.model_dump(), **rules})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            name = ".".join(str(part) for part in first["loc"]) or "policy"
            known = ", ".join(StewardPolicy.model_fields)
            is_unknown = first["type"] == "extra_forbidden"
            near = get_close_matches(name, StewardPolicy.model_fields, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            unknown = f"no such rule; there are {known}{meant}"
            what = unknown if is_unknown else in_plain_words(first)
            msg = f"{name}: {what}"
            raise ValueError(msg) from None

    def check_mechanism(self, name: str, mechanism: ServedMechanism) -> None:
        """Refuse a mechanism whose parameters break a rule.

        Raises:
            PolicyRefused: With the rule and its number.
        """
        for problem in self._problems(name, mechanism):
            _refuse(problem)

    def check_opening(self, opening: RunOpening, registered: BudgetRule, open_runs: int) -> None:
        """Refuse a run that is too long, too dear or one too many.

        Args:
            opening: What is to be reserved.
            registered: The rule of the data set's budget, as it was registered.
            open_runs: Of this analyst on this data set.

        Raises:
            PolicyRefused: With the rule and its number.
        """
        if self.max_steps is not None and opening.num_steps > self.max_steps:
            _refuse(f"max_steps is {self.max_steps}, and this run declares {opening.num_steps}")
        if self.max_open_runs is not None and open_runs >= self.max_open_runs:
            _refuse(
                f"max_open_runs is {self.max_open_runs}: close one of yours first "
                "('analyst runs --open', 'analyst close')"
            )
        self._check_epsilon(opening.declared, registered)

    def check_rows(self, rows: int) -> None:
        """Refuse a step with too many images.

        Raises:
            PolicyRefused: With the rule and its number.
        """
        if self.max_images is not None and rows > self.max_images:
            _refuse(f"max_images is {self.max_images}")

    def epsilon_rule(self, registered: BudgetRule) -> BudgetRule | None:
        """Return what measures one run alone, None if that is not limited.

        Args:
            registered: The rule of the data set's budget, as it was registered.
        """
        most = self.max_epsilon_per_run
        if most is None:
            return None
        return allotment_rule(most, registered.budget.delta, registered.chosen)

    def _check_epsilon(self, declared: Cost, registered: BudgetRule) -> None:
        """Refuse a run that alone would cost too much.

        Raises:
            PolicyRefused: With the rule, its number and what the run would cost.
        """
        rule = self.epsilon_rule(registered)
        if rule is not None and not rule.admits(declared):
            most, asked = rule.budget.epsilon, rule.spent_epsilon(declared)
            _refuse(f"max_epsilon_per_run is {most:g}, this run would cost {asked:.4f}")

    def _problems(self, name: str, mechanism: ServedMechanism) -> Iterator[str]:
        if self.mechanisms is not None and name not in self.mechanisms:
            yield f"mechanisms are {', '.join(self.mechanisms)}, and this is {name}"
        least = self.min_noise_multiplier
        if least is not None and mechanism.least_noise_multiplier < least:
            asked = f"{mechanism.least_noise_multiplier:g}"
            yield f"min_noise_multiplier is {least:g}, and this run's least is {asked}"
        rows = mechanism.rows_per_step
        if self.max_images is not None and rows is not None and rows > self.max_images:
            yield f"max_images is {self.max_images}, and a step of this run has {rows}"
        samples = mechanism.requirements().samples
        if samples is None:
            return
        rate = self.max_sampling_rate
        if rate is not None and samples.rate.exact > SamplingRate.at_least(rate).exact:
            asked = f"{float(samples.rate):.6g}"
            yield f"max_sampling_rate is {rate:g}, and this run's sampling_rate is {asked}"
        if self.max_capacity is not None and samples.capacity > self.max_capacity:
            yield f"max_capacity is {self.max_capacity}, and this run's is {samples.capacity}"


def _refuse(detail: str) -> NoReturn:
    raise PolicyRefused(detail)
