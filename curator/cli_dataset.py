"""The commands about data sets: what there is, and what the steward decides."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

from pydantic import ValidationError

from curator.administer import administer
from curator.administration.commands import (
    COMMANDS as ADMINISTRATIVE,
)
from curator.cli_common import UsageProblem, folder_of, reader_of, say
from curator.cli_source import SOURCE_COMMANDS
from curator.privacy.facts import DatasetFacts
from curator.rest.models import Dataset
from curator.service.steward_policy import StewardPolicy


def _list_datasets(arguments: Namespace) -> None:
    ledger = reader_of(arguments)
    for state in ledger.datasets():
        facts = DatasetFacts.model_validate_json(state.registration.facts_json)
        rules = StewardPolicy.of(state).rules()
        say(Dataset.of(facts, rules).model_dump_json())
    ledger.close()


def _administer(arguments: Namespace, **fields: object) -> None:
    """Send one command and print the answer.

    Raises:
        UsageProblem: If an argument is not valid.
    """
    kind = arguments.command.split()[1]
    try:
        command = ADMINISTRATIVE.validate_python(
            {"kind": kind, "dataset": arguments.name, **fields}
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        msg = f"{first['loc'][-1]}: {first['msg']}"
        raise UsageProblem(msg) from None
    try:
        lines = administer(folder_of(arguments), command)
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    for line in lines:
        say(line)


def _turn(arguments: Namespace) -> None:
    _administer(arguments, reason=arguments.reason)


def _erase(arguments: Namespace) -> None:
    """Erase, if the name was typed twice.

    Raises:
        UsageProblem: If it was not.
    """
    if arguments.confirm != arguments.name:
        msg = f"erasing cannot be undone: add --confirm {arguments.name}"
        raise UsageProblem(msg)
    _turn(arguments)


def _lower_cap(arguments: Namespace) -> None:
    _administer(arguments, epsilon=arguments.epsilon, reason=arguments.reason)


def _set_share(arguments: Namespace) -> None:
    _administer(arguments, analyst=arguments.analyst, epsilon=arguments.epsilon)


def _policy(arguments: Namespace) -> None:
    rules = {**dict(map(_rule, arguments.set or ())), **dict.fromkeys(arguments.clear or ())}
    if rules:
        _administer(arguments, rules=rules)
        return
    ledger = reader_of(arguments)
    policy = StewardPolicy.of(ledger.dataset(arguments.name))
    ledger.close()
    for rule, value in policy.rules().items():
        say(f"{rule} {value}")
    if not policy.rules():
        say("no rules; set one with --set RULE=VALUE: " + ", ".join(StewardPolicy.model_fields))


def _rule(text: str) -> tuple[str, object]:
    """Read RULE=VALUE.

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
        return name, int(value) if value.isdecimal() else float(value)
    except ValueError:
        msg = f"{name}: '{value}' is not a number"
        raise UsageProblem(msg) from None


DATASET_COMMANDS: dict[str, Callable[[Namespace], None]] = {
    **SOURCE_COMMANDS,
    "dataset list": _list_datasets,
    "dataset pause": _turn,
    "dataset resume": _turn,
    "dataset retire": _turn,
    "dataset erase": _erase,
    "dataset cap": _lower_cap,
    "dataset share": _set_share,
    "dataset policy": _policy,
}
