"""What the ledger's commands print of a data set: its budget, its runs, what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curator.ledger.datasets_and_runs import DatasetState, RunState, Spend, Statement
from curator.ledger.sql_ledger import SqlLedger
from curator.privacy.budget import REHEARSAL_EPSILON
from curator.privacy.facts import is_rehearsal
from curator.rest.models import BudgetAnswer, Run
from curator.service.rehearsal import BANNER


def budget_answer(ledger: SqlLedger, state: DatasetState, statement: Statement) -> dict[str, Any]:
    """Return what is spent and left of a data set, for programs."""
    runs = [Run.of(run, state.spent_alone(run)) for run in statement.open_runs]
    return BudgetAnswer.of(statement, runs, None, ledger.spends(statement.dataset)).model_dump()


def statement_lines(state: DatasetState, statement: Statement) -> list[str]:
    """Return what is spent and left of a data set, with a line for each open run."""
    rehearsal = is_rehearsal(statement.dataset)
    left = f"{statement.remaining_epsilon:.4f} left of {statement.cap:g}"
    if statement.cap >= REHEARSAL_EPSILON:
        left = "no limit"
    if statement.status.is_final:
        left = f"{statement.status}, so nothing can be spent any more,"
    lines = [BANNER] if rehearsal else []
    lines.append(
        f"{statement.dataset}: epsilon {statement.spent_epsilon:.4f} spent, "
        f"{statement.reserved_epsilon:.4f} with open runs, {left} "
        f"at delta {statement.budget.delta:g}, {statement.adjacency}, "
        f"accountant {statement.accountant}"
    )
    lines += [
        f"  run {run.run_id} of {run.analyst}: {run.mechanism}, "
        f"{_used(run)}, epsilon {state.spent_alone(run):.4f} alone"
        for run in statement.open_runs
    ]
    return lines


def spend_lines(spends: Sequence[Spend]) -> list[str]:
    """Return who spent what, and that it is not to be added up."""
    if not spends:
        return []
    return [
        *(
            f"{one.analyst} alone: epsilon {one.spent_epsilon:.4f} spent, "
            f"{one.reserved_epsilon:.4f} with open runs"
            for one in spends
        ),
        "numbers of one analyst or one run alone do not add up to what all spent together",
    ]


def decision_lines(state: DatasetState) -> list[str]:
    """Return what the steward decided about a data set."""
    from curator.service.steward_policy import StewardPolicy  # torch

    favours = "" if state.rule.chosen is None else f", favours order {state.rule.chosen:g}"
    lines = [f"{state.status}, registered {state.registered_at}{favours}"]
    if state.cap < state.rule.budget.epsilon:
        lines.append(f"cap lowered to {state.cap:g} from {state.rule.budget.epsilon:g}")
    if not state.added.is_zero:
        added = state.rule.spent_epsilon(state.added)
        lines.append(f"epsilon {added:.4f} was added when an older copy was restored")
    lines += [f"share of {analyst}: epsilon {epsilon:g}" for analyst, epsilon in state.shares]
    rules = StewardPolicy.of(state).rules()
    return lines + [f"policy: {rule} {value}" for rule, value in rules.items()]


def closed_line(state: DatasetState, run: RunState) -> str:
    """Return how a closed run ended, and what it cost alone."""
    return (
        f"run {run.run_id} of {run.analyst}: {run.mechanism}, {_used(run)}, "
        f"{run.close_reason} {run.closed_at}, epsilon {state.spent_alone(run):.4f} alone"
    )


def _used(run: RunState) -> str:
    """Return how much of what a run declared was used."""
    if run.is_one_release:
        return "its one release used" if run.setup_begun else "its one release not used"
    return f"{run.used} of {run.num_steps} steps used"
