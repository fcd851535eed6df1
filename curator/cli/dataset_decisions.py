"""The commands about data sets: what there is, and what the steward decides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from curator.cli.add_dataset import app as app
from curator.cli.command import Dir, Reason, Task, UsageProblem, command, opened, reader
from curator.cli.options import argument, option

Name = Annotated[str, argument("NAME", "The data set.")]
Again = Annotated[str | None, option("The name again.", "NAME")]
Rules = Annotated[list[str] | None, option("A rule; repeatable.", "RULE=VALUE", "--set")]
Cleared = Annotated[list[str] | None, option("No such rule; repeatable.", "RULE", "--clear")]


@command(app, "dataset pause cats --dir /srv/weir --reason 'a question'")
def pause(task: Task, *, name: Name, folder: Dir, reason: Reason) -> None:
    """Take no steps until it is resumed; runs stay open."""
    _administer(task, folder, name, "pause", reason=reason)


@command(app, "dataset resume cats --dir /srv/weir --reason answered")
def resume(task: Task, *, name: Name, folder: Dir, reason: Reason) -> None:
    """Take steps again."""
    _administer(task, folder, name, "resume", reason=reason)


@command(app, "dataset retire cats --dir /srv/weir --reason 'study over' --confirm cats")
def retire(task: Task, *, name: Name, folder: Dir, reason: Reason, confirm: Again) -> None:
    """Take no steps ever again; runs are closed."""
    _check_confirmed(name, confirm, "retiring cannot be undone")
    _administer(task, folder, name, "retire", reason=reason)


@command(app, "dataset erase cats --dir /srv/weir --reason 'consent withdrawn' --confirm cats")
def erase(task: Task, *, name: Name, folder: Dir, reason: Reason, confirm: Again) -> None:
    """Retire, and delete the images; the ledger stays."""
    _check_confirmed(name, confirm, "erasing cannot be undone")
    _administer(task, folder, name, "erase", reason=reason)


@command(app, "dataset cap cats --dir /srv/weir --epsilon 5 --reason 'new advice'")
def cap(
    task: Task,
    *,
    name: Name,
    folder: Dir,
    epsilon: float = option("The new cap.", "E", needed=True),
    reason: Reason,
    confirm: str | None = option(
        "The name again; needed where no more than what is spent or reserved is left.", "NAME"
    ),
) -> None:
    """Allow less of the budget, for ever."""
    from curator.administration.lookup import known_dataset

    ledger = reader(folder)
    try:
        known_dataset(ledger, name)
        statement = ledger.statement(name)
    finally:
        ledger.close()
    spent, reserved = statement.spent_epsilon, statement.reserved_epsilon
    if 0 < epsilon <= spent:
        words = f"epsilon {spent:.4f} is spent already, so no step would be charged ever again"
        _check_confirmed(name, confirm, f"a cap only falls, and {words}")
    elif 0 < epsilon <= reserved:
        words = f"open runs hold epsilon {reserved:.4f} with what is spent, so they would end early"
        _check_confirmed(name, confirm, f"a cap only falls, and {words}")
    _administer(task, folder, name, "cap", epsilon=epsilon, reason=reason)


@command(app, "dataset share cats alice --dir /srv/weir --epsilon 4")
def share(
    task: Task,
    *,
    name: Name,
    analyst: str = argument("ANALYST", "Whose cap it is."),
    folder: Dir,
    epsilon: float = option("The analyst's cap.", "E", needed=True),
) -> None:
    """Give an analyst a cap of its own."""
    _administer(task, folder, name, "share", analyst=analyst, epsilon=epsilon)


@command(
    app, "dataset policy cats --dir /srv/weir --set min_noise_multiplier=0.7 --clear max_steps"
)
def policy(task: Task, *, name: Name, folder: Dir, rules: Rules, cleared: Cleared) -> None:
    """Show or change what runs may ask for."""
    changes = changed_rules(rules, cleared)
    if changes:
        _administer(task, folder, name, "policy", rules=changes)
        return
    from curator.administration.lookup import known_dataset
    from curator.service.steward_policy import StewardPolicy  # torch

    task.output.stops = True
    ledger = reader(folder)
    try:
        found = StewardPolicy.of(known_dataset(ledger, name))
    finally:
        ledger.close()
    task.screen.answer(found.model_dump(exclude_none=True))
    task.screen.show(*(f"{rule} {value}" for rule, value in found.rules().items()))
    if not found.rules():
        known = ", ".join(StewardPolicy.model_fields)
        task.screen.show(f"no rules; set one with --set RULE=VALUE: {known}")


@command(app, "dataset list --dir /srv/weir", name="list", reads=True)
def list_all(task: Task, *, folder: Dir) -> None:
    """List data sets: whether each is in service, and its public facts."""
    from curator.cli.dataset_lines import NONE_YET, dataset_lines, service_of
    from curator.privacy.facts import DatasetFacts
    from curator.rest.models import Dataset
    from curator.service.steward_policy import StewardPolicy  # torch

    ledger, answers, at = reader(folder), [], opened(folder)
    for state in ledger.datasets():
        facts = DatasetFacts.model_validate_json(state.registration.facts_json)
        listed = Dataset.of(facts, StewardPolicy.of(state).rules())
        in_service, words = service_of(state, at)
        task.screen.show(*dataset_lines(listed, words))
        served = {"status": state.status, "in_service": in_service, "state": words}
        answers.append(listed.model_dump() | served)
    ledger.close()
    task.screen.answer(answers)
    if not answers:
        task.screen.show(NONE_YET)


def changed_rules(rules: list[str] | None, cleared: list[str] | None) -> dict[str, object]:
    """Return what --set and --clear say; None is a rule that goes."""
    return {**dict(map(_rule, rules or ())), **dict.fromkeys(cleared or ())}


def _rule(text: str) -> tuple[str, object]:
    """Read RULE=VALUE.

    Raises:
        UsageProblem: If it is no rule, there is no value, or it should be a number and is not.
    """
    name, equals, value = text.partition("=")
    if not equals or not value:
        msg = f"'{text}' is not RULE=VALUE"
        raise UsageProblem(msg)
    if "." in name:
        msg = (
            f"{name}: --set names rules of a policy here; a key of a recipe is changed in its file"
        )
        raise UsageProblem(msg)
    if name == "mechanisms":
        return name, [part.strip() for part in value.split(",")]
    try:
        number = float(value)
    except ValueError:
        msg = f"{name}: '{value}' is not a number"
        raise UsageProblem(msg) from None
    return name, int(number) if number.is_integer() else number


def _check_confirmed(name: str, confirm: str | None, why: str) -> None:
    """Check that the name was typed twice.

    Raises:
        UsageProblem: If it was not.
    """
    if confirm != name:
        other = "" if confirm is None else f"; '{confirm}' is not the name of the data set again"
        msg = f"{why}: add --confirm {name}{other}"
        raise UsageProblem(msg)


def _administer(task: Task, folder: Path, name: str, kind: str, **fields: object) -> None:
    """Send one command and print the answer.

    Raises:
        UsageProblem: If an argument is not valid.
    """
    from pydantic import ValidationError

    from curator.administration.administer import administer  # gRPC, and torch where nobody serves
    from curator.administration.commands import COMMANDS
    from curator.validation_errors import in_plain_words

    try:
        asked = COMMANDS.validate_python({"kind": kind, "dataset": name, **fields})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        msg = f"{first['loc'][-1]}: {in_plain_words(first)}"
        raise UsageProblem(msg) from None
    try:
        lines = administer(opened(folder), asked)
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    task.screen.tell(*lines)
    task.screen.answer({"dataset": name, "done": kind, "told": list(lines)})
