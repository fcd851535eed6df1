"""The commands about the ledger: what is spent, evidence, backups and restored copies."""

from __future__ import annotations

import json
import sqlite3
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from curator.bounded import TooLarge, bounded_lines, read_bounded
from curator.cli_common import Screen, UsageProblem, check_out, folder_of, reader_of, say
from curator.config import load_config
from curator.ledger.anchor import HeadAnchor
from curator.ledger.problems import ChainBroken
from curator.ledger.records import DatasetState, RunState, Spend, Statement
from curator.ledger.restored import accept_restored
from curator.ledger.sql import SqlLedger
from curator.new_file import new_file
from curator.open_ledger import open_ledger
from curator.privacy.budget import REHEARSAL_EPSILON
from curator.privacy.facts import is_rehearsal
from curator.rest.models import BudgetAnswer, Run
from curator.service.rehearsal import BANNER

_LONGEST_LINE = 1 << 22  # the last one names every data set


def _budget(arguments: Namespace) -> None:
    ledger, screen, answers = reader_of(arguments), Screen.of(arguments), []
    for state in ledger.datasets():
        statement = ledger.statement(state.registration.name)
        answers.append(_answer(ledger, state, statement))
        screen.show(*_statement_lines(state, statement))
    ledger.close()
    screen.answer(answers)
    if not answers:
        screen.show("no data set yet: curator dataset add NAME SOURCE ...")


def _answer(ledger: SqlLedger, state: DatasetState, statement: Statement) -> dict[str, Any]:
    runs = [Run.of(run, state.spent_alone(run)) for run in statement.open_runs]
    return BudgetAnswer.of(statement, runs, None, ledger.spends(statement.dataset)).model_dump()


def _statement_lines(state: DatasetState, statement: Statement) -> list[str]:
    budget, rehearsal = statement.budget, is_rehearsal(statement.dataset)
    left = f"{statement.remaining_epsilon:.4f} left of {statement.cap:g}"
    if statement.cap >= REHEARSAL_EPSILON:
        left = "no limit"
    if statement.status.is_final:
        left = f"{statement.status}, so nothing can be spent any more,"
    lines = [BANNER] if rehearsal else []
    lines.append(
        f"{statement.dataset}: epsilon {statement.spent_epsilon:.4f} spent, "
        f"{statement.reserved_epsilon:.4f} with open runs, {left} "
        f"at delta {budget.delta:g}, {statement.adjacency}, "
        f"accountant {statement.accountant}"
    )
    lines += [
        f"  run {run.run_id} of {run.analyst}: {run.mechanism}, "
        f"{_used(run)}, epsilon {state.spent_alone(run):.4f} alone"
        for run in statement.open_runs
    ]
    return lines


def _show(arguments: Namespace) -> None:
    ledger, screen, answers = reader_of(arguments), Screen.of(arguments), []
    for state in ledger.datasets():
        name = state.registration.name
        statement, decided = ledger.statement(name), _decisions(state)
        who = _spend_lines(ledger.spends(name))
        screen.show(*_statement_lines(state, statement), *(f"  {line}" for line in who + decided))
        runs = []  # one document for a program, lines as they are read for people
        for run in ledger.runs(dataset=name):
            if screen.as_json:
                runs.append(Run.of(run, state.spent_alone(run)).model_dump())
            elif not run.is_open:
                screen.show(f"  {_closed(run)}, epsilon {state.spent_alone(run):.4f} alone")
        answers.append(_answer(ledger, state, statement) | {"decisions": decided, "runs": runs})
    sequence, digest = ledger.head()
    ledger.close()
    screen.show(f"head: entry {sequence}, {digest}")
    screen.answer({"datasets": answers, "head": {"sequence": sequence, "digest": digest}})


def _spend_lines(spends: Sequence[Spend]) -> list[str]:
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


def _decisions(state: DatasetState) -> list[str]:
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


def _closed(run: RunState) -> str:
    return (
        f"run {run.run_id} of {run.analyst}: {run.mechanism}, {_used(run)}, "
        f"{run.close_reason} {run.closed_at}"
    )


def _used(run: RunState) -> str:
    """Return how much of what a run declared was used."""
    if run.is_one_release:
        return "its one release used" if run.setup_begun else "its one release not used"
    return f"{run.used} of {run.num_steps} steps used"


def _export(arguments: Namespace) -> None:
    from curator.ledger.export import export_jsonl  # the accountants

    check_out(arguments)
    with closing(reader_of(arguments)) as ledger:
        lines = export_jsonl(ledger)
        if arguments.out is None:
            for line in lines:  # JSON already, one object a line
                say(line)
            return
        count = 0
        with (
            new_file(arguments.out, replace=arguments.force, mode=0o666) as partial,
            partial.open("w", encoding="ascii") as file,
        ):
            for line in lines:
                file.write(line + "\n")
                count += 1
    Screen.of(arguments).answer({"out": str(arguments.out), "lines": count})


def _verify(arguments: Namespace) -> None:
    """Check an export, line by line.

    Raises:
        UsageProblem: If it is none.
        ChainBroken: If it does not hold.
    """
    from curator.ledger.export import verify_export  # the accountants

    meant = "the file that 'curator ledger export' wrote"
    try:
        with arguments.file.open("rb") as stream:
            lines = bounded_lines(arguments.file, stream, _LONGEST_LINE, meant)
            checked = verify_export(line.decode() for line in lines)
    except UnicodeDecodeError:
        msg = f"{arguments.file} is not a ledger export: give {meant}"
        raise UsageProblem(msg) from None
    except ChainBroken as problem:
        if _is_certificate(arguments.file):
            msg = (
                f"{arguments.file} is a privacy certificate, not a ledger export: give {meant}; "
                "'analyst certificate verify FILE' checks a certificate"
            )
            raise UsageProblem(msg) from None
        msg = f"{arguments.file}: {problem}; export it again, or restore the right copy"
        raise ChainBroken(msg) from None
    screen, answers = Screen.of(arguments), []
    sequence, digest = checked.head
    for totals in checked.totals:
        screen.show(*([BANNER] if is_rehearsal(totals.dataset) else []))
        screen.show(
            f"{totals.dataset}: chain and costs hold; epsilon {totals.spent_epsilon:.6f} spent, "
            f"{totals.reserved_epsilon:.6f} with open runs; "
            f"a second accountant finds {totals.second_spent_epsilon:.6f}"
        )
        answers.append(
            asdict(totals)
            | {"rehearsal": is_rehearsal(totals.dataset)}
            | {"head": {"sequence": sequence, "digest": digest}}
        )
    screen.show(f"head: entry {sequence}, {digest}")
    screen.answer(answers)


def _is_certificate(path: Path) -> bool:
    try:
        told = json.loads(read_bounded(path, _LONGEST_LINE, "a certificate"))
    except (OSError, ValueError, RecursionError, TooLarge):
        return False
    return isinstance(told, dict) and {"statement", "signature"} <= told.keys()


def _backup(arguments: Namespace) -> None:
    """Copy the ledger's file in one consistent state, also while a curator serves.

    Raises:
        UsageProblem: If the ledger is in a database.
    """
    folder = folder_of(arguments)
    if load_config(folder.config).database:
        msg = "this ledger is in PostgreSQL: back it up with pg_dump"
        raise UsageProblem(msg)
    check_out(arguments)
    reader_of(arguments).close()
    with new_file(arguments.out, replace=arguments.force) as partial:
        source = sqlite3.connect(f"file:{quote(str(folder.ledger.absolute()))}?mode=ro", uri=True)
        with closing(source), closing(sqlite3.connect(partial)) as target:
            source.backup(target)
    screen = Screen.of(arguments)
    screen.tell(f"{arguments.out} is a copy of the ledger; putting it back later is noticed")
    screen.answer({"out": str(arguments.out)})


def _accept_restored(arguments: Namespace) -> None:
    folder = folder_of(arguments)
    config = load_config(folder.config)
    ledger = open_ledger(folder, config, is_restored=True)
    try:
        anchor = HeadAnchor(folder.head_file(config))
        lines = list(accept_restored(ledger, anchor, arguments.reason))
    finally:
        ledger.close()
    lines.append(
        "shares and policies that were set since the copy was made are not known: check them"
    )
    screen = Screen.of(arguments)
    screen.tell(*lines)
    screen.answer({"told": lines})


LEDGER_COMMANDS: dict[str, Callable[[Namespace], None]] = {
    "budget": _budget,
    "ledger show": _show,
    "ledger export": _export,
    "ledger verify": _verify,
    "ledger backup": _backup,
    "ledger accept-restored": _accept_restored,
}
