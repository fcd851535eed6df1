"""`curator plan`: the analyst's plan, as the steward sees it before allowing it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import typer

from curator.cli.command import Dir, Task, UsageProblem, command, opened, reader
from curator.cli.dataset_decisions import Cleared, Name, Rules, changed_rules
from curator.cli.options import argument, flag, option
from curator.cli.screen import table_lines

if TYPE_CHECKING:
    from curator.cli.recipe import Asked
    from curator.ledger.sql_ledger import SqlLedger
    from curator.rest.plan import PlanAnswer

app = typer.Typer()

_MOST_POINTS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is asked, and which rows are shown around the answer."""

    SECTION: ClassVar = "Question (with both: which noise reaches both?)"

    for_steps: int | None = option("What would N steps cost?", "N")
    for_epsilon: float | None = option("What would E buy?", "E")
    alone: bool = flag("--alone", "Also the epsilon of this run alone; takes seconds.")
    analyst: str | None = option("With the share of this analyst.", "ANALYST")
    over: Literal["steps", "epsilon", "noise"] = option(
        "What differs from row to row.", group="Table", default="steps"
    )
    points: int = option("Rows.", "N", group="Table", min=1, max=_MOST_POINTS, default=8)


@command(
    app,
    "plan cats recipe.toml --dir /srv/weir --for-steps 2000",
    "plan cats recipe.toml --dir /srv/weir --set max_epsilon_per_run=2",
    reads=True,
)
def plan(  # noqa: PLR0913 - one parameter a group of options
    task: Task,
    *,
    name: Name,
    recipe: str = argument("RECIPE.toml", "A recipe of the analyst's."),
    folder: Dir,
    question: Question,
    rules: Rules,
    cleared: Cleared,
) -> None:
    """Show what an analyst's recipe would cost, also under another policy; free.

    With --set and --clear the policy is tried, and nothing is changed.

    Raises:
        UsageProblem: If the recipe asks for what the data set was not declared for.
    """
    from curator.cli.recipe import mechanism_table
    from curator.errors import PolicyRefused, RequestError

    tried = changed_rules(rules, cleared)
    table = mechanism_table(recipe)
    ledger = reader(folder)
    try:
        answer, asked, holds = _Plan(folder, name, question, tried).answer(ledger, table)
    except (RequestError, PolicyRefused) as problem:
        msg = (
            f"{problem.public_message} ({problem.detail}) Change the key in {recipe}: --set tries "
            "rules of the policy here, and no rule allows more than was declared"
        )
        raise UsageProblem(msg) from None
    finally:
        ledger.close()
    task.screen.answer(answer.model_dump() | {"policy": holds, "left_out": asked.left_out})
    task.screen.show(*_lines(answer, asked, holds, is_tried=bool(tried)))


@dataclass(frozen=True, slots=True)
class _Plan:
    folder: Path
    name: str
    question: Question
    rules: dict[str, object]

    def answer(
        self, ledger: SqlLedger, table: dict[str, Any]
    ) -> tuple[PlanAnswer, Asked, dict[str, str]]:
        """Plan as the serving curator would, for one caller and one policy.

        Raises:
            NotThere: If there is no such data set or analyst.
            UsageProblem: If a rule is not valid.
        """
        from curator.administration.lookup import check_analyst, known_dataset
        from curator.cli.recipe import wire_parameters
        from curator.config import load_config
        from curator.mechanisms.public_networks import choose_networks
        from curator.planning.planner import Planner, PlanRequest
        from curator.planning.table import Axis
        from curator.privacy.facts import DatasetFacts
        from curator.rest.plan import PlanAnswer
        from curator.service.caller import Caller, Role
        from curator.service.steward_policy import StewardPolicy

        name, question, who = self.name, self.question, self.question.analyst
        state = known_dataset(ledger, name)
        if who:
            check_analyst(opened(self.folder), who)
        facts = DatasetFacts.model_validate_json(state.registration.facts_json)
        try:
            policy = StewardPolicy.of(state).changed(self.rules)
        except ValueError as problem:
            raise UsageProblem(str(problem)) from None
        found = opened(self.folder)
        choose_networks(found.networks)
        limits = load_config(found.config).limits
        planner = Planner(ledger=ledger, facts=lambda _: facts, limits=limits)
        asked = wire_parameters(table, facts)
        request = PlanRequest(
            dataset=name,
            mechanism=asked.mechanism,
            parameters_json=json.dumps(asked.parameters),
            num_steps=question.for_steps,
            epsilon=question.for_epsilon,
            alone=question.alone,
            axis=Axis(question.over),
            points=question.points,
        )
        caller = Caller(who, Role.ANALYST) if who else Caller("steward", Role.STEWARD)
        plan = planner.plan(caller, request, policy)
        return PlanAnswer.of(plan, asked.mechanism), asked, policy.rules()


def _lines(
    answer: PlanAnswer, asked: Asked, rules: Mapping[str, str], *, is_tried: bool
) -> list[str]:
    """Return the answer in words, as `analyst plan` prints it."""
    tried = " (as tried here)" if is_tried else ""
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
    from curator.ledger.datasets_and_runs import DatasetStatus

    status = DatasetStatus(answer.budget.status)
    return status if status.is_final else f"{answer.remaining:.4f} left"


def _epsilon(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.4f}"
