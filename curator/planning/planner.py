"""What a run would cost, what a budget affords, or which noise reaches both; charges nothing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from curator.accounting.cost import Cost
from curator.accounting.epsilon_alone import pld_epsilon
from curator.accounting.event_text import event_from_text
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.none import NoEvent
from curator.errors import MalformedRequest
from curator.ledger.ledger import Account, Ledger, RunState, Statement
from curator.mechanisms.base import ServedMechanism
from curator.mechanisms.catalogue import parse_mechanism
from curator.planning.advice import Planned, advice
from curator.planning.noise import noise_for, with_noise
from curator.planning.pricing import Allowance, Price
from curator.planning.table import MOST_POINTS, Axis, Grid, PlanPoint, plan_points
from curator.privacy.event_numbers import check_num_steps
from curator.privacy.facts import DatasetFacts
from curator.service.caller import Caller
from curator.service.checks import check_policy, check_step_size
from curator.service.fair_turns import InTurn, working_for
from curator.service.limits import Limits
from curator.service.steward_policy import StewardPolicy

MOST_BEFORE: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun:
    """A run that nobody has opened."""

    mechanism: str
    parameters_json: str
    num_steps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRequest:
    """Steps ask for epsilon, an epsilon for steps, both for noise, neither for all that is left.

    `alone` also asks for the run's own epsilon, which takes seconds; `points` for a table. All is
    told as if the runs of `before` had been opened. A noise may be asked for a `share` of what is
    left up to the epsilon, so that runs which follow have the rest.
    """

    dataset: str
    mechanism: str
    parameters_json: str
    num_steps: int | None = None
    epsilon: float | None = None
    alone: bool = True
    axis: Axis = Axis.STEPS
    points: int = 0
    share: float = 1.0
    before: tuple[PlannedRun, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The cost of a run, by the ledger's rule and alone."""

    num_steps: int
    affordable_steps: int
    epsilon_after: float
    epsilon_alone: float | None
    fits: bool
    statement: Statement
    share: Account | None
    noise_multiplier: float
    points: tuple[PlanPoint, ...] = ()
    advice: tuple[str, ...] = ()


def _one_at_a_time() -> Executor:
    return InTurn(1, pool=ThreadPoolExecutor(1, thread_name_prefix="planner"))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Planner:
    """Answers what runs would cost, by the ledger and public facts."""

    ledger: Ledger
    facts: Callable[[str], DatasetFacts]  # of a data set by its name; raises UnknownDataset
    limits: Limits
    in_service: Callable[[str], bool] = lambda _: True  # whether all that is stored is sound
    thread: Executor = field(default_factory=_one_at_a_time)  # its memory is used again

    def plan(
        self, caller: Caller, request: PlanRequest, policy: StewardPolicy | None = None
    ) -> Plan:
        """Plan a run.

        Args:
            caller: Who asks, and may have a cap of its own.
            request: What is asked.
            policy: Instead of the steward's present one, to try another.

        Returns:
            The plan; `num_steps` is 0 when the target affords not one step.

        Raises:
            UnknownDataset: If there is no such data set.
            MalformedRequest: If a parameter is not valid, or a step is too large for this curator.
            BeyondDeclaration: If the data set was not declared for so much.
            PolicyRefused: If the steward's policy forbids it.
        """
        facts = self.facts(request.dataset)
        most, sound = self.limits.max_open_runs, self.in_service(facts.name)
        now = Allowance.of(self.ledger, facts, caller, most, policy, in_service=sound)
        _check(request)
        allowance = now.after(_cost_before(request, facts))

        def parse(noise_multiplier: float) -> ServedMechanism:
            text = with_noise(request.parameters_json, noise_multiplier)
            return parse_mechanism(request.mechanism, text, facts.space)

        solved = request.num_steps is not None and request.epsilon is not None
        if request.num_steps is not None and request.epsilon is not None:
            check_policy(parse(1.0), facts)
            steps, epsilon = request.num_steps, request.epsilon
            mechanism = parse(noise_for(allowance, parse, steps, epsilon, share=request.share))
        else:
            mechanism = parse_mechanism(request.mechanism, request.parameters_json, facts.space)
        check_policy(mechanism, facts)
        allowance.policy.check_mechanism(request.mechanism, mechanism)
        check_step_size(self.limits, mechanism)
        price = Price.of(mechanism)
        planned = Planned(
            allowance=allowance,
            mechanism=mechanism,
            price=price,
            num_steps=_steps(allowance, price, request),
            affordable_steps=allowance.affordable_steps(price),
            noise_multiplier=mechanism.noise_multiplier,
        )
        return Plan(
            num_steps=planned.num_steps,
            affordable_steps=planned.affordable_steps,
            epsilon_after=allowance.epsilon_after(price, planned.num_steps),
            epsilon_alone=self._alone(caller, planned) if request.alone else None,
            fits=planned.fits,
            statement=self.ledger.statement(request.dataset),
            share=now.share,
            noise_multiplier=planned.noise_multiplier,
            points=_points(planned, parse, request),
            advice=advice(planned, parse, with_noise=not solved) if request.points else (),
        )

    def epsilon_alone(self, run: RunState, delta: float) -> float:
        """Return the epsilon of a run alone at its declared steps, which takes seconds.

        Args:
            run: Of the ledger.
            delta: Of its data set.
        """
        texts = (run.setup_event_json, run.step_event_json)
        setup, step = map(event_from_text, texts)
        return self._composed(run.analyst, setup, step, run.num_steps, delta)

    def _alone(self, caller: Caller, planned: Planned) -> float:
        mechanism = planned.mechanism
        setup, step = mechanism.setup_event(), mechanism.step_event()
        delta = planned.allowance.facts.delta
        return self._composed(caller.name, setup, step, planned.num_steps, delta)

    def _composed(
        self, caller: str, setup: PrivacyEvent, step: PrivacyEvent, num_steps: int, delta: float
    ) -> float:
        """Return an epsilon by privacy loss distributions; parts that cost share delta equally."""
        parts = [(setup, 1), (step, num_steps)]
        paid = [(event, n) for event, n in parts if not isinstance(event, NoEvent) and n]
        with working_for(caller):
            answers = [
                self.thread.submit(pld_epsilon, event, n, delta / len(paid)) for event, n in paid
            ]
        return sum(answer.result() for answer in answers)


def _check(request: PlanRequest) -> None:
    """Check the numbers that are no parameter.

    Raises:
        MalformedRequest: If one is out of range.
    """
    if not 0 <= request.points <= MOST_POINTS:
        msg = f"points: at most {MOST_POINTS}"
        raise MalformedRequest(msg, "points")
    if not 0 < request.share <= 1:
        msg = "noise.share: above 0 and at most 1"
        raise MalformedRequest(msg, "noise.share")
    if len(request.before) > MOST_BEFORE:
        msg = f"before: at most {MOST_BEFORE} runs"
        raise MalformedRequest(msg, "before")
    counts = [("before.num_steps", one.num_steps) for one in request.before]
    if request.num_steps is not None:
        counts.append(("num_steps", request.num_steps))
    for name, count in counts:
        try:
            check_num_steps(count)
        except ValueError as error:
            raise MalformedRequest(str(error), name) from None


def _cost_before(request: PlanRequest, facts: DatasetFacts) -> Cost:
    """Return what the runs cost that are to be opened before."""
    total = Cost.zero()
    for run in request.before:
        mechanism = parse_mechanism(run.mechanism, run.parameters_json, facts.space)
        check_policy(mechanism, facts)
        total += Price.of(mechanism).times(run.num_steps)
    return total


def _steps(allowance: Allowance, price: Price, request: PlanRequest) -> int:
    if request.num_steps is not None:
        return request.num_steps
    if request.epsilon is not None:
        return allowance.steps_to(price, request.epsilon)
    return allowance.affordable_steps(price)


def _points(
    planned: Planned, parse: Callable[[float], ServedMechanism], request: PlanRequest
) -> tuple[PlanPoint, ...]:
    if not request.points:
        return ()
    cap = planned.allowance.rule.budget.epsilon
    grid = Grid(
        axis=request.axis,
        points=request.points,
        num_steps=request.num_steps,
        epsilon=cap if request.epsilon is None else min(request.epsilon, cap),
        noise_multiplier=planned.noise_multiplier,
    )
    return plan_points(planned.allowance, parse, grid)
