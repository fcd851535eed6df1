"""The commands about the ledger: what is spent, evidence, backups and restored copies."""

from __future__ import annotations

import json
import sqlite3
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing

from curator.cli_common import UsageProblem, folder_of, reader_of, say
from curator.config import load_config
from curator.identity.certificates import write_private
from curator.ledger.anchor import HeadAnchor
from curator.ledger.export import export_jsonl, verify_export
from curator.ledger.records import DatasetState, RunState, Statement
from curator.ledger.restored import accept_restored
from curator.open_ledger import open_ledger
from curator.rest.models import BudgetAnswer, Run
from curator.service.steward_policy import StewardPolicy


def _budget(arguments: Namespace) -> None:
    ledger = reader_of(arguments)
    statements = [ledger.statement(state.registration.name) for state in ledger.datasets()]
    ledger.close()
    if arguments.json:
        answers = [
            BudgetAnswer.of(one, [Run.of(run) for run in one.open_runs]) for one in statements
        ]
        say(json.dumps([answer.model_dump() for answer in answers], indent=1))
        return
    if not statements:
        say("no data set yet: curator dataset add NAME SOURCE ...")
    for statement in statements:
        _say_statement(statement)


def _say_statement(statement: Statement) -> None:
    budget = statement.budget
    say(
        f"{statement.dataset}: epsilon {statement.spent_epsilon:.4f} spent, "
        f"{statement.reserved_epsilon:.4f} with open runs, {statement.remaining_epsilon:.4f} left "
        f"of {statement.cap:g} at delta {budget.delta:g}, {statement.adjacency}, "
        f"accountant {statement.accountant}"
    )
    for run in statement.open_runs:
        say(
            f"  run {run.run_id} of {run.analyst}: {run.mechanism}, "
            f"{run.used} of {run.num_steps} steps used"
        )


def _show(arguments: Namespace) -> None:
    ledger = reader_of(arguments)
    for state in ledger.datasets():
        name = state.registration.name
        _say_statement(ledger.statement(name))
        for line in _decisions(state):
            say(f"  {line}")
        for run in ledger.runs(dataset=name):
            if not run.is_open:
                say(f"  {_closed(run)}")
    sequence, digest = ledger.head()
    ledger.close()
    say(f"head: entry {sequence}, {digest}")


def _decisions(state: DatasetState) -> list[str]:
    lines = [f"{state.status}, registered {state.registered_at}"]
    if state.cap < state.rule.budget.epsilon:
        lines.append(f"cap lowered to {state.cap:g} from {state.rule.budget.epsilon:g}")
    if not state.added.is_zero:
        added = state.rule.spent_epsilon(state.added)
        lines.append(f"epsilon {added:.4f} was added when an older copy was restored")
    lines += [f"share of {analyst}: epsilon {epsilon:g}" for analyst, epsilon in state.shares]
    rules = StewardPolicy.of(state).rules()
    return lines + [f"policy: {rule} {value}" for rule, value in rules.items()]


def _closed(run: RunState) -> str:
    return (
        f"run {run.run_id} of {run.analyst}: {run.mechanism}, {run.used} of {run.num_steps} "
        f"steps, {run.close_reason} {run.closed_at}"
    )


def _export(arguments: Namespace) -> None:
    ledger = reader_of(arguments)
    lines = export_jsonl(ledger)
    if arguments.out is None:
        for line in lines:
            say(line)
    else:
        arguments.out.write_text("".join(line + "\n" for line in lines))
    ledger.close()


def _verify(arguments: Namespace) -> None:
    try:
        lines = arguments.file.read_text().splitlines()
    except UnicodeDecodeError:
        msg = f"{arguments.file} is not a ledger export"
        raise UsageProblem(msg) from None
    for totals in verify_export(lines):
        say(
            f"{totals.dataset}: chain and costs hold; epsilon {totals.spent_epsilon:.6f} spent, "
            f"{totals.reserved_epsilon:.6f} with open runs; "
            f"a second accountant finds {totals.second_spent_epsilon:.6f}"
        )


def _backup(arguments: Namespace) -> None:
    """Copy the ledger's file in one consistent state, also while a curator serves.

    Raises:
        UsageProblem: If the ledger is in a database, or the target exists.
    """
    folder = folder_of(arguments)
    if load_config(folder.config).database:
        msg = "this ledger is in PostgreSQL: back it up with pg_dump"
        raise UsageProblem(msg)
    if arguments.out.exists():
        msg = f"{arguments.out} exists; choose another name"
        raise UsageProblem(msg)
    reader_of(arguments).close()
    write_private(arguments.out, b"")
    source = sqlite3.connect(f"file:{folder.ledger}?mode=ro", uri=True)
    with closing(source), closing(sqlite3.connect(arguments.out)) as target:
        source.backup(target)
    say(f"{arguments.out} is a copy of the ledger; putting it back later is noticed")


def _accept_restored(arguments: Namespace) -> None:
    folder = folder_of(arguments)
    config = load_config(folder.config)
    ledger = open_ledger(folder, config, is_restored=True)
    try:
        anchor = HeadAnchor(folder.head_file(config))
        for line in accept_restored(ledger, anchor, arguments.reason):
            say(line)
    finally:
        ledger.close()
    say("shares and policies that were set since the copy was made are not known: check them")


LEDGER_COMMANDS: dict[str, Callable[[Namespace], None]] = {
    "budget": _budget,
    "ledger show": _show,
    "ledger export": _export,
    "ledger verify": _verify,
    "ledger backup": _backup,
    "ledger accept-restored": _accept_restored,
}
