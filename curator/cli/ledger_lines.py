"""What the ledger's commands print of a data set: its budget, its runs, what was decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from curator.ledger.book import Book
from curator.ledger.datasets_and_runs import (
    NOTHING,
    Account,
    DatasetState,
    RunState,
    Spend,
    Statement,
)
from curator.ledger.export import CheckedTotals
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
    return lines + [f"  {run_line(state, run)}" for run in statement.open_runs]


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


def promise_line(statement: Statement) -> str:
    """Return what was promised of a data set, what the steward allows of it, and its status."""
    budget, cap = statement.budget, statement.cap
    if is_rehearsal(statement.dataset):
        return f"promised: nothing, as a rehearsal has no limit; {statement.status}"
    lowered = f", of which the steward allows {cap:g}" if cap < budget.epsilon else ""
    return (
        f"promised: epsilon {budget.epsilon:g}{lowered} at delta {budget.delta:g}, "
        f"{statement.adjacency}, over all runs of all analysts; {statement.status}"
    )


def share_lines(state: DatasetState, account: Callable[[str], Account | None]) -> list[str]:
    """Return the shares, with what is spent of each by the share's own weights.

    Args:
        state: Of the data set.
        account: Returns what one analyst's share is measured by.
    """
    lines = []
    for analyst, epsilon in state.shares:
        measured = account(analyst)
        if measured is None:
            continue
        numbers = measured.numbers(NOTHING)
        lines.append(
            f"share of {analyst}: epsilon {epsilon:g}, of which {numbers.spent:.4f} spent, "
            f"{numbers.reserved:.4f} with open runs"
        )
    if lines:
        lines.append(
            "a share counts its analyst's runs by weights of its own, made for its size, so its "
            "number is another than the same runs' alone by the data set's"
        )
    return lines


def decision_lines(state: DatasetState, shares: Sequence[str]) -> list[str]:
    """Return what the steward decided about a data set; `shares` as `share_lines` has them."""
    from curator.service.steward_policy import StewardPolicy  # torch

    favours = "" if state.rule.chosen is None else f", favours order {state.rule.chosen:g}"
    lines = [f"{state.status}, registered {state.registered_at}{favours}"]
    if state.cap < state.rule.budget.epsilon:
        lines.append(f"cap lowered to {state.cap:g} from {state.rule.budget.epsilon:g}")
    if not state.added.is_zero:
        added = state.rule.spent_epsilon(state.added)
        lines.append(f"epsilon {added:.4f} was added when an older copy was restored")
    lines += shares
    rules = StewardPolicy.of(state).rules()
    return lines + [f"policy: {rule} {value}" for rule, value in rules.items()]


def checked_lines(book: Book, totals: CheckedTotals, runs: Sequence[RunState] | None) -> list[str]:
    """Return what an export that holds says of a data set, with the runs that were asked for."""
    name = totals.dataset
    state = book.dataset(name)
    details = [
        promise_line(book.statement(name)),
        *spend_lines(book.spends(name)),
        *share_lines(state, partial(book.share, name)),
        *(run_line(state, run) for run in runs or ()),
    ]
    first = (
        f"{name}: chain and costs hold; epsilon {totals.spent_epsilon:.6f} spent, "
        f"{totals.reserved_epsilon:.6f} with open runs; "
        f"a second accountant finds {totals.second_spent_epsilon:.6f}"
    )
    return [first, *(f"  {line}" for line in details)]


def checked_answer(
    book: Book, totals: CheckedTotals, runs: Sequence[RunState] | None
) -> dict[str, Any]:
    """Return the same for programs."""
    state, statement = book.dataset(totals.dataset), book.statement(totals.dataset)
    told = asdict(totals) | {
        "epsilon": statement.budget.epsilon,
        "cap": statement.cap,
        "delta": statement.budget.delta,
        "adjacency": str(statement.adjacency),
        "status": str(statement.status),
        "analysts": [asdict(one) for one in book.spends(totals.dataset)],
    }
    if runs is not None:
        told["runs"] = [Run.of(run, state.spent_alone(run)).model_dump() for run in runs]
    return told


def run_line(state: DatasetState, run: RunState) -> str:
    """Return what a run used and cost alone, and how it ended if it is closed."""
    ended = "" if run.is_open else f"closed {run.closed_at} ({run.close_reason}), "
    return (
        f"run {run.run_id} of {run.analyst}: {run.mechanism}, {_used(run)}, "
        f"{ended}epsilon {state.spent_alone(run):.4f} alone"
    )


def _used(run: RunState) -> str:
    """Return how much of what a run declared was used."""
    if run.is_one_release:
        return "its one release used" if run.setup_begun else "its one release not used"
    return f"{run.used} of {run.num_steps} steps used"
