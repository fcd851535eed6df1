"""What a run would cost, or how many steps a budget affords; charges nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from curator.accounting.cost import event_cost
from curator.accounting.rule import BudgetRule
from curator.errors import MalformedRequest
from curator.ledger.ledger import NOTHING, Statement
from curator.mechanisms.catalogue import parse_mechanism
from curator.privacy.budget import Budget
from curator.privacy.event import MAX_STEPS, check_num_steps
from curator.service.caller import Caller
from curator.service.context import Context
from curator.service.policy import check_policy
from curator.service.run_alone import epsilon_alone
from curator.service.steward_policy import StewardPolicy


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRequest:
    """Exactly one of `num_steps` and `epsilon`, or neither for all that is left."""

    dataset: str
    mechanism: str
    parameters_json: str
    num_steps: int | None = None
    epsilon: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The cost of a run, by the ledger's rule and alone."""

    num_steps: int
    affordable_steps: int
    epsilon_after: float
    epsilon_alone: float
    fits: bool
    statement: Statement


def plan_run(context: Context, caller: Caller, request: PlanRequest) -> Plan:
    """Plan a run.

    Args:
        context: The collaborators.
        caller: Who asks, and may have a cap of its own.
        request: What is asked.

    Returns:
        The plan; `num_steps` is 0 when the target affords not one step.

    Raises:
        UnknownDataset: If there is no such data set.
        MalformedRequest: If a parameter is not valid.
        NotPermitted: If the policy of the data set forbids the parameters.
    """
    facts = context.served(request.dataset).facts
    mechanism = parse_mechanism(request.mechanism, request.parameters_json, facts.space)
    check_policy(mechanism, facts)
    policy = StewardPolicy.of(context.ledger.dataset(request.dataset))
    policy.check_mechanism(request.mechanism, mechanism)
    setup, step = event_cost(mechanism.setup_event()), event_cost(mechanism.step_event())
    account = context.ledger.account(request.dataset)
    rule, reserved = account.rule, account.reserved
    affordable = rule.affordable_steps(reserved, setup, step, policy.max_steps or MAX_STEPS)
    share = context.ledger.share(request.dataset, caller.name)
    if share is not None:
        affordable = share.rule.affordable_steps(share.reserved, setup, step, affordable)
    alone = policy.epsilon_rule(facts.delta)
    if alone is not None:
        affordable = alone.affordable_steps(NOTHING, setup, step, affordable)
    if request.num_steps is not None:
        try:
            check_num_steps(request.num_steps)
        except ValueError as error:
            raise MalformedRequest(str(error)) from None
        num_steps = request.num_steps
    elif request.epsilon is not None:
        target = _target_rule(rule, request.epsilon)
        num_steps = target.affordable_steps(reserved, setup, step, MAX_STEPS)
    else:
        num_steps = affordable
    total = reserved + setup + step * num_steps
    return Plan(
        num_steps=num_steps,
        affordable_steps=affordable,
        epsilon_after=rule.spent_epsilon(total),
        epsilon_alone=epsilon_alone(
            context.planner,
            mechanism.setup_event(),
            mechanism.step_event(),
            num_steps,
            facts.delta,
        ),
        fits=num_steps <= affordable,
        statement=context.ledger.statement(request.dataset),
    )


def _target_rule(rule: BudgetRule, epsilon: float) -> BudgetRule:
    """Return the data set's rule with a lower cap.

    Raises:
        MalformedRequest: If the target is not a budget.
    """
    try:
        target = Budget(epsilon=epsilon, delta=rule.budget.delta)
    except ValueError as error:
        raise MalformedRequest(str(error)) from None
    return replace(rule, budget=target) if target.epsilon < rule.budget.epsilon else rule
