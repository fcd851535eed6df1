"""The commands about data sets: what there is, and what the steward decides."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

from pydantic import ValidationError

from curator.administration.commands import (
    COMMANDS as ADMINISTRATIVE,
)
from curator.administration.lookup import known_dataset
from curator.cli_common import Screen, UsageProblem, folder_of, reader_of
from curator.cli_source import SOURCE_COMMANDS
from curator.privacy.facts import DatasetFacts
from curator.validation_errors import in_plain_words


def _list_datasets(arguments: Namespace) -> None:
    from curator.rest.models import Dataset
    from curator.service.steward_policy import StewardPolicy  # torch

    ledger, answers = reader_of(arguments), []
    for state in ledger.datasets():
        facts = DatasetFacts.model_validate_json(state.registration.facts_json)
        answers.append(Dataset.of(facts, StewardPolicy.of(state).rules()))
    ledger.close()
    screen = Screen.of(arguments)
    screen.show(*(answer.model_dump_json() for answer in answers))
    screen.answer([answer.model_dump() for answer in answers])


def _administer(arguments: Namespace, **fields: object) -> None:
    """Send one command and print the answer.

    Raises:
        UsageProblem: If an argument is not valid.
    """
    from curator.administration.administer import administer  # gRPC, and torch where nobody serves

    kind = arguments.command.split()[1]
    try:
        command = ADMINISTRATIVE.validate_python(
            {"kind": kind, "dataset": arguments.name, **fields}
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        msg = f"{first['loc'][-1]}: {in_plain_words(first)}"
        raise UsageProblem(msg) from None
    try:
        lines = administer(folder_of(arguments), command)
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    screen = Screen.of(arguments)
    screen.tell(*lines)
    screen.answer({"dataset": arguments.name, "done": kind, "told": list(lines)})


def _turn(arguments: Namespace) -> None:
    _administer(arguments, reason=arguments.reason)


def _end(arguments: Namespace) -> None:
    """Retire or erase, if the name was typed twice."""
    doing = {"dataset retire": "retiring", "dataset erase": "erasing"}
    _check_confirmed(arguments, f"{doing[arguments.command]} cannot be undone")
    _turn(arguments)


def _lower_cap(arguments: Namespace) -> None:
    """Lower the cap; if nothing would be left of it, only if the name was typed twice."""
    ledger = reader_of(arguments)
    try:
        known_dataset(ledger, arguments.name)
        statement = ledger.statement(arguments.name)
    finally:
        ledger.close()
    spent, reserved = statement.spent_epsilon, statement.reserved_epsilon
    if 0 < arguments.epsilon <= spent:
        words = f"epsilon {spent:.4f} is spent already, so no step would be charged ever again"
        _check_confirmed(arguments, f"a cap only falls, and {words}")
    elif 0 < arguments.epsilon <= reserved:
        words = f"open runs hold epsilon {reserved:.4f} with what is spent, so they would end early"
        _check_confirmed(arguments, f"a cap only falls, and {words}")
    _administer(arguments, epsilon=arguments.epsilon, reason=arguments.reason)


def _check_confirmed(arguments: Namespace, why: str) -> None:
    """Check that the name was typed twice.

    Raises:
        UsageProblem: If it was not.
    """
    if arguments.confirm != arguments.name:
        msg = f"{why}: add --confirm {arguments.name}"
        raise UsageProblem(msg)


def _set_share(arguments: Namespace) -> None:
    _administer(arguments, analyst=arguments.analyst, epsilon=arguments.epsilon)


def _policy(arguments: Namespace) -> None:
    rules = {**dict(map(policy_rule, arguments.set or ())), **dict.fromkeys(arguments.clear or ())}
    if rules:
        _administer(arguments, rules=rules)
        return
    from curator.service.steward_policy import StewardPolicy  # torch

    ledger = reader_of(arguments)
    try:
        policy = StewardPolicy.of(known_dataset(ledger, arguments.name))
    finally:
        ledger.close()
    screen = Screen.of(arguments)
    screen.answer(policy.model_dump(exclude_none=True))
    screen.show(*(f"{rule} {value}" for rule, value in policy.rules().items()))
    if not policy.rules():
        known = ", ".join(StewardPolicy.model_fields)
        screen.show(f"no rules; set one with --set RULE=VALUE: {known}")


def policy_rule(text: str) -> tuple[str, object]:
    """Read RULE=VALUE.

    Args:
        text: As it was typed.

    Raises:
        UsageProblem: If there is no value, or it should be a number and is not.
    """
    name, equals, value = text.partition("=")
    if not equals or not value:
        msg = f"'{text}' is not RULE=VALUE"
        raise UsageProblem(msg)
    if name == "mechanisms":
        return name, [part.strip() for part in value.split(",")]
    try:
        number = float(value)
    except ValueError:
        msg = f"{name}: '{value}' is not a number"
        raise UsageProblem(msg) from None
    return name, int(number) if number.is_integer() else number


DATASET_COMMANDS: dict[str, Callable[[Namespace], None]] = {
    **SOURCE_COMMANDS,
    "dataset list": _list_datasets,
    "dataset pause": _turn,
    "dataset resume": _turn,
    "dataset retire": _end,
    "dataset erase": _end,
    "dataset cap": _lower_cap,
    "dataset share": _set_share,
    "dataset policy": _policy,
}
