"""What a run would cost, what a budget affords, or which noise reaches both; charges nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from curator.errors import MalformedRequest
from curator.ledger.ledger import Account, Statement
from curator.mechanisms.base import ServedMechanism
from curator.mechanisms.catalogue import parse_mechanism
from curator.planning.advice import Planned, advice
from curator.planning.noise import noise_for, with_noise
from curator.planning.pricing import Limits, Price
from curator.planning.run_alone import epsilon_alone
from curator.planning.table import MOST_POINTS, Axis, Grid, PlanPoint, plan_points
from curator.privacy.event_numbers import check_num_steps
from curator.service.caller import Caller
from curator.service.context import Context
from curator.service.declared_limits import check_policy
from curator.service.fair_turns import working_for
from curator.service.step_limit import check_step_size
from curator.service.steward_policy import StewardPolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRequest:
    """Steps ask for epsilon, an epsilon for steps, both for noise, neither for all that is left.

    `alone` also asks for the run's own epsilon, which takes seconds; `points` for a table.
    """

    dataset: str
    mechanism: str
    parameters_json: str
    num_steps: int | None = None
    epsilon: float | None = None
    alone: bool = True
    axis: Axis = Axis.STEPS
    points: int = 0


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


def plan_run(
    context: Context, caller: Caller, request: PlanRequest, policy: StewardPolicy | None = None
) -> Plan:
    """Plan a run.

    Args:
        context: The collaborators.
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
    facts = context.served(request.dataset).facts
    limits = Limits.of(context, caller, request.dataset, policy)
    _check(request)

    def parse(noise_multiplier: float) -> ServedMechanism:
        text = with_noise(request.parameters_json, noise_multiplier)
        return parse_mechanism(request.mechanism, text, facts.space)

    solved = request.num_steps is not None and request.epsilon is not None
    if request.num_steps is not None and request.epsilon is not None:
        check_policy(parse(1.0), facts)
        mechanism = parse(noise_for(limits, parse, request.num_steps, request.epsilon))
    else:
        mechanism = parse_mechanism(request.mechanism, request.parameters_json, facts.space)
    check_policy(mechanism, facts)
    limits.policy.check_mechanism(request.mechanism, mechanism)
    check_step_size(context, mechanism)
    price = Price.of(mechanism)
    planned = Planned(
        limits=limits,
        mechanism=mechanism,
        price=price,
        num_steps=_steps(limits, price, request),
        affordable_steps=limits.affordable_steps(price),
        noise_multiplier=mechanism.noise_multiplier,
    )
    return Plan(
        num_steps=planned.num_steps,
        affordable_steps=planned.affordable_steps,
        epsilon_after=limits.epsilon_after(price, planned.num_steps),
        epsilon_alone=_alone(context, caller, planned) if request.alone else None,
        fits=planned.fits,
        statement=context.ledger.statement(request.dataset),
        share=limits.share,
        noise_multiplier=planned.noise_multiplier,
        points=_points(planned, parse, request),
        advice=advice(planned, parse, with_noise=not solved) if request.points else (),
    )


def _check(request: PlanRequest) -> None:
    """Check the numbers that are no parameter.

    Raises:
        MalformedRequest: If one is out of range.
    """
    if not 0 <= request.points <= MOST_POINTS:
        msg = f"points: at most {MOST_POINTS}"
        raise MalformedRequest(msg, "points")
    if request.num_steps is not None:
        try:
            check_num_steps(request.num_steps)
        except ValueError as error:
            raise MalformedRequest(str(error), "num_steps") from None


def _steps(limits: Limits, price: Price, request: PlanRequest) -> int:
    if request.num_steps is not None:
        return request.num_steps
    if request.epsilon is not None:
        return limits.steps_to(price, request.epsilon)
    return limits.affordable_steps(price)


def _alone(context: Context, caller: Caller, planned: Planned) -> float:
    mechanism = planned.mechanism
    with working_for(caller.name):
        return epsilon_alone(
            context.planner,
            mechanism.setup_event(),
            mechanism.step_event(),
            planned.num_steps,
            planned.limits.facts.delta,
        )


def _points(
    planned: Planned, parse: Callable[[float], ServedMechanism], request: PlanRequest
) -> tuple[PlanPoint, ...]:
    if not request.points:
        return ()
    cap = planned.limits.rule.budget.epsilon
    grid = Grid(
        axis=request.axis,
        points=request.points,
        num_steps=request.num_steps,
        epsilon=cap if request.epsilon is None else min(request.epsilon, cap),
        noise_multiplier=planned.noise_multiplier,
    )
    return plan_points(planned.limits, parse, grid)
