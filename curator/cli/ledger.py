"""The commands about the ledger: what is spent, evidence, backups and restored copies."""

from __future__ import annotations

import functools
import json
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import typer

from curator.cli.command import (
    Dir,
    Force,
    Reason,
    Task,
    UsageProblem,
    check_out,
    command,
    opened,
    reader,
)
from curator.cli.options import Group, argument, flag, option
from curator.cli.screen import say

budget_app = typer.Typer()
app = typer.Typer(name="ledger", cls=Group, help="Show, export, verify and back up.")

_LONGEST_LINE = 1 << 22  # the last one names every data set


@command(budget_app, "budget --dir /srv/weir", reads=True)
def budget(task: Task, *, folder: Dir) -> None:
    """Show what is spent and left; works while serving."""
    from curator.cli.dataset_lines import NONE_YET
    from curator.cli.ledger_lines import budget_answer, statement_lines

    ledger, answers = reader(folder), []
    for state in ledger.datasets():
        statement = ledger.statement(state.registration.name)
        answers.append(budget_answer(ledger, state, statement))
        task.screen.show(*statement_lines(state, statement))
    ledger.close()
    task.screen.answer(answers)
    if not answers:
        task.screen.show(NONE_YET)


@command(app, "ledger export --dir /srv/weir --out ledger.jsonl")
def export(
    task: Task,
    *,
    folder: Dir,
    out: Path | None = option("Where to write; standard output by default.", "FILE"),
    force: Force = False,
) -> None:
    """Write every entry as JSON lines."""
    from curator.ledger.export import export_jsonl  # the accountants
    from curator.system.new_file import new_file

    task.output.stops = out is None
    check_out(opened(folder), out, force=force)
    with closing(reader(folder)) as ledger:
        lines = export_jsonl(ledger)
        if out is None:
            for line in lines:  # JSON already, one object a line
                say(line)
            return
        count, last = 0, ""
        with (
            new_file(out, replace=force, mode=0o666) as partial,
            partial.open("w", encoding="ascii") as file,
        ):
            for line in lines:
                file.write(line + "\n")
                count, last = count + 1, line
    sequence, digest = json.loads(last)["head"]
    task.screen.tell(
        f"{out} holds all {sequence:,} entries of the ledger",
        f"head: entry {sequence}, {digest}",
        f"next, on any machine: curator ledger verify {shlex.quote(str(out))}",
    )
    head = {"sequence": sequence, "digest": digest}
    task.screen.answer({"out": str(out), "lines": count, "head": head})


@command(app, "ledger verify ledger.jsonl", "ledger verify ledger.jsonl --runs", reads=True)
def verify(
    task: Task,
    *,
    file: Path = argument("EXPORT", "From 'ledger export'."),
    with_runs: bool = flag("--runs", "Also every run: whose, which method, what it used and cost."),
) -> None:
    """Check an export offline: chain, integer costs, a second accountant; show who spent what.

    Raises:
        UsageProblem: If it is none.
        ChainBroken: If it does not hold.
    """
    from curator.cli.ledger_lines import checked_answer, checked_lines
    from curator.ledger.datasets_and_runs import RunState
    from curator.ledger.export import verify_export  # the accountants
    from curator.ledger.problems import ChainBroken
    from curator.privacy.facts import is_rehearsal
    from curator.service.rehearsal import BANNER
    from curator.system.bounded_file import bounded_lines

    meant = "the file that 'curator ledger export' wrote"
    closed: list[RunState] = []
    try:
        with file.open("rb") as stream:
            lines = bounded_lines(file, stream, _LONGEST_LINE, meant)
            checked = verify_export(
                (line.decode() for line in lines), closed.append if with_runs else None
            )
    except UnicodeDecodeError:
        msg = f"{file} is not a ledger export: give {meant}"
        raise UsageProblem(msg) from None
    except ChainBroken as problem:
        if _is_certificate(file):
            msg = (
                f"{file} is a privacy certificate, not a ledger export: give {meant}; "
                "'analyst certificate verify FILE' checks a certificate"
            )
            raise UsageProblem(msg) from None
        msg = f"{file}: {problem}; export it again, or restore the right copy"
        raise ChainBroken(msg) from None
    answers = []
    sequence, digest = checked.head
    for totals in checked.totals:
        runs = None
        if with_runs:
            mine = (run for run in closed if run.dataset == totals.dataset)
            runs = [*mine, *checked.book.statement(totals.dataset).open_runs]
        task.screen.show(*([BANNER] if is_rehearsal(totals.dataset) else []))
        task.screen.show(*checked_lines(checked.book, totals, runs))
        answers.append(
            checked_answer(checked.book, totals, runs)
            | {"rehearsal": is_rehearsal(totals.dataset)}
            | {"head": {"sequence": sequence, "digest": digest}}
        )
    task.screen.show(f"head: entry {sequence}, {digest}")
    task.screen.answer(answers)


def _is_certificate(path: Path) -> bool:
    from curator.system.bounded_file import TooLarge, read_bounded

    try:
        told = json.loads(read_bounded(path, _LONGEST_LINE, "a certificate"))
    except (OSError, ValueError, RecursionError, TooLarge):
        return False
    return isinstance(told, dict) and {"statement", "signature"} <= told.keys()


@command(app, "ledger show --dir /srv/weir", reads=True)
def show(task: Task, *, folder: Dir) -> None:
    """Show budgets, decisions, runs and the head."""
    from curator.cli.ledger_lines import (
        budget_answer,
        decision_lines,
        run_line,
        share_lines,
        spend_lines,
        statement_lines,
    )
    from curator.rest.models import Run

    ledger, screen, answers = reader(folder), task.screen, []
    for state in ledger.datasets():
        name = state.registration.name
        shares = share_lines(state, functools.partial(ledger.share, name))
        statement, decided = ledger.statement(name), decision_lines(state, shares)
        who = spend_lines(ledger.spends(name))
        screen.show(*statement_lines(state, statement), *(f"  {line}" for line in who + decided))
        runs = []  # one document for a program, lines as they are read for people
        for run in ledger.runs(dataset=name):
            if screen.as_json:
                runs.append(Run.of(run, state.spent_alone(run)).model_dump())
            elif not run.is_open:
                screen.show(f"  {run_line(state, run)}")
        answer = budget_answer(ledger, state, statement)
        answers.append(answer | {"decisions": decided, "runs": runs})
    sequence, digest = ledger.head()
    ledger.close()
    screen.show(f"head: entry {sequence}, {digest}")
    screen.answer({"datasets": answers, "head": {"sequence": sequence, "digest": digest}})


@command(app, "ledger backup --dir /srv/weir --out ledger-copy.sqlite")
def backup(
    task: Task,
    *,
    folder: Dir,
    out: Path = option("Where to write the copy.", "FILE", needed=True),
    force: Force = False,
) -> None:
    """Copy the file consistently, also while serving.

    Raises:
        UsageProblem: If the ledger is in a database.
    """
    from curator.config import load_config
    from curator.system.new_file import new_file

    found = opened(folder)
    if load_config(found.config).database:
        msg = "this ledger is in PostgreSQL: back it up with pg_dump"
        raise UsageProblem(msg)
    check_out(found, out, force=force)
    reader(folder).close()
    with new_file(out, replace=force) as partial:
        source = sqlite3.connect(f"file:{quote(str(found.ledger.absolute()))}?mode=ro", uri=True)
        with closing(source), closing(sqlite3.connect(partial)) as target:
            source.backup(target)
    task.screen.tell(f"{out} is a copy of the ledger; putting it back later is noticed")
    task.screen.answer({"out": str(out)})


@command(app, "ledger accept-restored --dir /srv/weir --reason 'disk failed on Monday'")
def accept_restored(task: Task, *, folder: Dir, reason: Reason) -> None:
    """Go on with an older copy, counting all that may be missing as spent, for ever."""
    from curator.administration.open_ledger import open_ledger
    from curator.config import load_config
    from curator.ledger import restored
    from curator.ledger.anchor import HeadAnchor

    found = opened(folder)
    config = load_config(found.config)
    ledger = open_ledger(found, config, is_restored=True)
    try:
        anchor = HeadAnchor(found.head_file(config))
        lines = list(restored.accept_restored(ledger, anchor, reason))
    finally:
        ledger.close()
    lines.append(
        "shares and policies that were set since the copy was made are not known: check them"
    )
    task.screen.tell(*lines)
    task.screen.answer({"told": lines})
