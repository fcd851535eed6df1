"""`analyst budget`, `runs` and `close`: what is left, what is open, and how to end it."""

from __future__ import annotations

from typing import Annotated

import typer

from analyst.cli.access import Access, members
from analyst.cli.command import Task, command
from analyst.cli.options import argument, flag, option

app = typer.Typer()

_ACCESS = "--curator localhost:50051 --credentials alice.credentials.json"
RunId = Annotated[str, argument("RUN_ID", "As 'train' and 'runs' print it.")]


@command(app, f"budget {_ACCESS}", reads=True)
def budget(
    task: Task,
    *,
    access: Access,
    dataset: str | None = option("One data set [all that you may use].", "NAME"),
) -> None:
    """What is left of the budget."""
    from analyst.reports.budgets import (
        NO_DATASETS,
        facts_json,
        facts_text,
        statement,
        statement_json,
    )

    if (several := access.several()) is not None:
        from analyst.training.federation.reports import budgets

        with members(task, access, several) as asked:
            budgets(asked, dataset, task.screen)
        return
    with task.connect(access.one()) as barrier:
        facts = {one.name: one for one in barrier.datasets()}
        names = [dataset] if dataset else list(facts)
        left = {name: barrier.budget(name) for name in names}  # refuses a name that is not listed
    texts = [f"{statement(left[n])}\n{facts_text(facts[n])}" for n in names]
    task.screen.show("\n\n".join(texts) or NO_DATASETS)
    task.screen.answer([statement_json(left[n]) | {"facts": facts_json(facts[n])} for n in names])


@command(app, f"runs --open {_ACCESS}", reads=True)
def runs(
    task: Task,
    *,
    access: Access,
    open_only: bool = flag("--open", "Leave out closed runs."),
) -> None:
    """Your runs here: open ones first, the last opened first."""
    from analyst.reports.runs import runs_json, runs_text

    if (several := access.several()) is not None:
        from analyst.training.federation.reports import runs as runs_of

        with members(task, access, several) as asked:
            runs_of(asked, task.screen, open_only=open_only)
        return
    with task.connect(access.one()) as barrier:
        found = barrier.runs(open_only=open_only)
    task.screen.show(runs_text(found))
    task.screen.answer(runs_json(found))


@command(app, f"close 0123456789abcdef0123456789abcdef \\\n      {_ACCESS}")
def close(task: Task, *, run_id: RunId, access: Access) -> None:
    """End a run and give back what it did not use."""
    if (several := access.several()) is not None:
        from analyst.training.federation.reports import close_together

        with members(task, access, several) as asked:
            close_together(asked, run_id, task.screen.warn)
        task.screen.say("all runs are closed; what they did not use went back to the budgets")
        task.screen.answer({"closed": run_id.split("+")})
        return
    from analyst.reports.runs import close_run

    with task.connect(access.one()) as barrier:
        before, words = close_run(barrier, run_id)
    task.screen.say(words)
    task.screen.answer({"closed": [run_id], "was_closed_already": before})
