"""What a plan wastes, in words with numbers; public facts and the ledger only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from curator.accounting.cost import event_cost
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.sampled_gaussian import SampledGaussianEvent
from curator.data.capacity import enough_rows
from curator.mechanisms.base import Kind, ServedMechanism
from curator.planning.noise import noise_that_would_do
from curator.planning.pricing import Allowance, Price

_TOO_MUCH_NOISE: Final = 1.1
_MUCH_UNUSED: Final = 0.05
_NEARLY_ALL: Final = 0.98
_FEW_STEPS: Final = 100
_LITTLE_GAIN: Final = 0.5
_SPARE: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """A plan before anything is said about it."""

    allowance: Allowance
    mechanism: ServedMechanism
    price: Price
    num_steps: int
    affordable_steps: int
    noise_multiplier: float

    @property
    def fits(self) -> bool:
        """Whether the run would be opened now."""
        return 0 < self.num_steps <= self.affordable_steps and not self.allowance.obstacle

    @property
    def wanted_steps(self) -> int:
        """Steps that somebody wants; a release is wanted whatever it affords."""
        return max(1, self.num_steps) if self.is_one_release else self.num_steps

    @property
    def what(self) -> str:
        """What is asked, in words."""
        return "the release" if self.is_one_release else f"{self.num_steps:,} steps"

    @property
    def is_one_release(self) -> bool:
        """Whether all that is charged is one release."""
        return self.price.step.is_zero


def advice(
    planned: Planned, parse: Callable[[float], ServedMechanism], *, with_noise: bool
) -> tuple[str, ...]:
    """Return what a plan wastes or would be refused for, most important first.

    Args:
        planned: The plan.
        parse: The mechanism with a noise multiplier.
        with_noise: Whether the noise was given, so that less may be advised.
    """
    if planned.allowance.is_over:
        return (f"no run will ever be opened again: {planned.allowance.obstacle}",)
    found = [*_refused(planned), *_few(planned), *_sampling(planned)]
    if with_noise and not planned.allowance.facts.rehearsal:
        found += _less_noise(planned, parse) if not found else _more_noise(planned, parse)
    found += _alone_by_rule(planned)
    return (*found, *_released_once(planned), *_capacity(planned), *_everything(planned))


def _refused(planned: Planned) -> Iterator[str]:
    """Say that the run would be refused, and by what."""
    allowance, price = planned.allowance, planned.price
    if allowance.obstacle:
        yield f"no run would be opened now: {allowance.obstacle}"
    affordable = planned.affordable_steps
    if planned.wanted_steps <= affordable:
        return
    affords = f"affords {affordable:,} steps" if affordable else "affords none"
    if planned.is_one_release:
        affords = "does not afford it"
    by_budget = allowance.by_budget(price)
    by_share = allowance.by_share(price, by_budget)
    why = f"the rest of the budget {affords}"
    if affordable < by_share:
        why = _rule(planned, affordable, affords)
    elif by_share < by_budget:
        why = f"what is left of your share {affords}"
    yield f"{planned.what} would be refused: {why}"


def _rule(planned: Planned, affordable: int, affords: str) -> str:
    """Return which rule of the steward decides, with its number and what it counts."""
    policy = planned.allowance.policy
    rule = policy.epsilon_rule(planned.allowance.registered)
    if policy.max_steps == affordable:
        return f"max_steps is {policy.max_steps:,} by the steward's policy"
    if rule is None:
        return f"the steward's policy {affords}"
    alone = rule.spent_epsilon(planned.price.times(planned.wanted_steps))
    return (
        f"max_epsilon_per_run {rule.budget.epsilon:g} of the steward's policy {affords}; it counts "
        f"the run alone, by weights of its own, as epsilon {alone:.4f}"
    )


def _few(planned: Planned) -> Iterator[str]:
    """Say that few steps are affordable, unless still fewer are asked for."""
    if planned.is_one_release:
        return
    is_sampled = isinstance(planned.mechanism.step_event(), SampledGaussianEvent)
    more = "more noise or a smaller sampling rate" if is_sampled else "more noise"
    affordable = planned.affordable_steps
    if affordable < 1:
        yield f"not one step is affordable: {more} may buy some"
    elif affordable < _FEW_STEPS and not 0 < planned.num_steps < affordable:
        steps = _counted(affordable)
        yield f"no more than {steps} affordable, which trains next to nothing: {more} buys more"


def _counted(num_steps: int) -> str:
    return "1 step is" if num_steps == 1 else f"{num_steps:,} steps are"


def _released_once(planned: Planned) -> Iterator[str]:
    if planned.mechanism.kind is Kind.RELEASED_ONCE and planned.num_steps > 1:
        yield "only the one release is charged: its steps are free, however many"


def _sampling(planned: Planned) -> Iterator[str]:
    """Say that so little noise makes sampling useless; at the order that the rule favours."""
    event = planned.mechanism.step_event()
    if not isinstance(event, SampledGaussianEvent) or float(event.sampling_rate) >= 1:
        return
    rule = planned.allowance.rule
    at = rule.to_json()["orders"]
    index = at.index(rule.favourite) if isinstance(at, list) else 0
    whole = event_cost(GaussianEvent(noise_multiplier=event.noise_multiplier)).units[index]
    sampled = planned.price.step.units[index]
    if whole is not None and sampled is not None and sampled > _LITTLE_GAIN * whole:
        yield (
            f"with noise_multiplier {event.noise_multiplier:g} sampling saves next to nothing: a "
            "step costs more than half of what it would on the whole data set"
        )


def _more_noise(planned: Planned, parse: Callable[[float], ServedMechanism]) -> Iterator[str]:
    """Say with which noise that which would be refused is affordable."""
    wanted = planned.wanted_steps
    if planned.allowance.obstacle or wanted <= planned.affordable_steps:
        return
    least = noise_that_would_do(planned.allowance, parse, wanted, planned.noise_multiplier)
    if least is not None:
        yield f"with noise_multiplier {least:g} {planned.what} would fit"


def _less_noise(planned: Planned, parse: Callable[[float], ServedMechanism]) -> Iterator[str]:
    """Say how much less noise the rest of the budget, or of a share, affords for the same steps."""
    allowance, given = planned.allowance, planned.noise_multiplier
    cap = allowance.rule.budget.epsilon
    unused = cap - allowance.epsilon_after(planned.price, planned.num_steps)
    if allowance.share is not None:  # measured alone
        cap = allowance.share.rule.budget.epsilon
        after = allowance.share_after(allowance.share, planned.price, planned.num_steps)
        unused = min(unused, cap - after)
    if planned.num_steps < 1 or unused < _MUCH_UNUSED * cap:
        return
    least = noise_that_would_do(planned.allowance, parse, planned.num_steps, given)
    if least is None or given <= _TOO_MUCH_NOISE * least:
        return
    yield (
        f"epsilon {unused:.4f} would be left unused: what is left affords the same "
        f"with noise_multiplier {least:g}, {given / least:.3g} times less noise"
    )


def _capacity(planned: Planned) -> Iterator[str]:
    """Say that most rows of a padded batch are empty, or that samples are cut."""
    samples = planned.mechanism.requirements().samples
    if samples is None or samples.before_all is not None:
        return
    facts = planned.allowance.facts
    mean = float(samples.rate) * facts.nominal_size * (facts.max_records_per_group or 1)
    enough = enough_rows(mean)
    if samples.capacity > _SPARE * enough:
        yield (
            f"capacity {samples.capacity:,} is far above the rate, which needs about "
            f"{enough:,}: every step computes the empty rows too"
        )
    elif samples.capacity < mean:
        yield (
            f"capacity {samples.capacity:,} is below the expected {mean:,.0f} rows of a sample: "
            "most samples are cut"
        )


def _alone_by_rule(planned: Planned) -> Iterator[str]:
    """Say that a total above the rule for one run is not what the rule counts."""
    allowance = planned.allowance
    rule = allowance.policy.epsilon_rule(allowance.registered)
    after = allowance.epsilon_after(planned.price, planned.num_steps)
    if rule is None or not planned.fits or after <= rule.budget.epsilon:
        return
    alone = rule.spent_epsilon(planned.price.times(planned.num_steps))
    yield (
        f"max_epsilon_per_run {rule.budget.epsilon:g} allows this run: it counts the run alone, by "
        f"weights of its own, as epsilon {alone:.4f}; epsilon {after:.4f} is the data set's total"
    )


def _everything(planned: Planned) -> Iterator[str]:
    allowance = planned.allowance
    if allowance.facts.rehearsal:
        yield "a rehearsal has no limit: only the real curator says what fits"
        return
    if allowance.share is not None and planned.fits:
        mine = allowance.share_after(allowance.share, planned.price, planned.num_steps)
        yield (
            f"with this run epsilon {mine:.4f} of your share of "
            f"{allowance.share.rule.budget.epsilon:g} would be reserved, counted alone"
        )
    after = allowance.epsilon_after(planned.price, planned.num_steps)
    if planned.fits and after > _NEARLY_ALL * allowance.rule.budget.epsilon:
        yield "this run would reserve all that is left, for every analyst, until it is closed"
