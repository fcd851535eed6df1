"""What `curator plan` does: the analyst's plan, as the steward sees it before allowing it."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from curator.administration.known import check_analyst, known_dataset
from curator.cli_common import Screen, UsageProblem, folder_of, reader_of, table_lines
from curator.cli_dataset import policy_rule
from curator.cli_recipe import Asked, mechanism_table, wire_parameters
from curator.config import load_config
from curator.ledger.records import DatasetStatus

if TYPE_CHECKING:
    from curator.ledger.sql import SqlLedger
    from curator.rest.plan import PlanAnswer


def _plan(arguments: Namespace) -> None:
    table = mechanism_table(arguments.recipe)
    ledger = reader_of(arguments)
    try:
        answer, asked, rules = _answer(arguments, ledger, table)
    finally:
        ledger.close()
    screen = Screen.of(arguments)
    screen.answer(answer.model_dump() | {"policy": rules, "left_out": asked.left_out})
    screen.show(*_lines(arguments, answer, asked, rules))


def _answer(
    arguments: Namespace, ledger: SqlLedger, table: dict[str, Any]
) -> tuple[PlanAnswer, Asked, dict[str, str]]:
    """Plan as the serving curator would, for one caller and one policy.

    Raises:
        NotThere: If there is no such data set or analyst.
        UsageProblem: If a rule is not valid.
    """
    from curator.privacy.facts import DatasetFacts
    from curator.rest.plan import PlanAnswer
    from curator.sanitizer.entropy import OsEntropy  # torch
    from curator.service.caller import Caller, Role
    from curator.service.context import Context, ServedDataset
    from curator.service.plan_run import PlanRequest, plan_run
    from curator.service.plan_table import Axis
    from curator.service.steward_policy import StewardPolicy

    name, who = arguments.name, arguments.analyst
    state = known_dataset(ledger, name)
    if who:
        check_analyst(folder_of(arguments), who)
    facts = DatasetFacts.model_validate_json(state.registration.facts_json)
    rules = {**dict(map(policy_rule, arguments.set or ())), **dict.fromkeys(arguments.clear or ())}
    try:
        policy = StewardPolicy.of(state).changed(rules)
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    limits = load_config(folder_of(arguments).config).limits
    context = Context(
        ledger=ledger,
        datasets={name: ServedDataset(facts=facts, records=None)},
        noise=OsEntropy(),
        executor=ThreadPoolExecutor(1),
        holder="a plan charges nothing",
        max_samples=limits.max_samples,
        max_request_bytes=limits.max_message_bytes,
        max_open_runs=limits.max_open_runs,
    )
    asked = wire_parameters(table, facts)
    request = PlanRequest(
        dataset=name,
        mechanism=asked.mechanism,
        parameters_json=json.dumps(asked.parameters),
        num_steps=arguments.for_steps,
        epsilon=arguments.for_epsilon,
        alone=arguments.alone,
        axis=Axis(arguments.over),
        points=arguments.points,
    )
    caller = Caller(who, Role.ANALYST) if who else Caller("steward", Role.STEWARD)
    plan = plan_run(context, caller, request, policy)
    return PlanAnswer.of(plan, asked.mechanism), asked, policy.rules()


def _lines(
    arguments: Namespace, answer: PlanAnswer, asked: Asked, rules: Mapping[str, str]
) -> list[str]:
    """Return the answer in words, as `analyst plan` prints it."""
    tried = " (as tried here)" if arguments.set or arguments.clear else ""
    said = ", ".join(f"{rule} {value}" for rule, value in rules.items()) or "no rules"
    alone = "" if answer.epsilon_alone is None else f", {answer.epsilon_alone:.4f} alone"
    lines = [
        f"data set    {answer.dataset}: {_left(answer)}",
        f"policy      {said}{tried}",
        f"mechanism   {asked.mechanism}",
        f"affordable  {answer.affordable_steps:,} steps",
        (
            f"asked       {answer.num_steps:,} steps with noise_multiplier "
            f"{answer.noise_multiplier:g}: epsilon {_epsilon(answer.epsilon_after)} in total "
            f"afterwards{alone}; {'fits' if answer.fits else 'does not fit'}"
        ),
    ]
    rows = [
        (
            f"{point.noise_multiplier:g}",
            f"{point.num_steps:,}",
            _epsilon(point.epsilon_after),
            "yes" if point.fits else "no",
        )
        for point in answer.points
    ]
    lines += ["", *table_lines(("noise", "steps", "epsilon after", "fits"), rows)]
    lines += [f"note: {one}" for one in answer.advice]
    if asked.left_out:
        lines.append(f"note: not sent to a curator: {', '.join(asked.left_out)}")
    return lines


def _left(answer: PlanAnswer) -> str:
    status = DatasetStatus(answer.budget.status)
    return status if status.is_final else f"{answer.remaining:.4f} left"


def _epsilon(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.4f}"


PLAN_COMMANDS: dict[str, Callable[[Namespace], None]] = {"plan": _plan}
