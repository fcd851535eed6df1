"""What each of the steward's commands does."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from curator.add_dataset import add_dataset
from curator.bootstrap import create_curator, drain_on_signals
from curator.cli_explain import explained
from curator.clock import utc_now
from curator.config import CuratorConfig, load_config
from curator.folder import CuratorFolder, initialise
from curator.ledger.export import export_jsonl, verify_export
from curator.ledger.records import Statement
from curator.ledger.sql import SqlLedger
from curator.privacy.facts import DatasetFacts
from curator.rest.models import BudgetAnswer, Dataset, Run
from curator.telemetry.log import configure_logging

_SHAPE_PARTS = 3
_MOST_DAYS = 3650


class UsageProblem(ValueError):
    """An argument is not valid."""


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _init(arguments: Namespace) -> None:
    folder = initialise(arguments.dir)
    _print(f"{folder.root} is ready; configuration in {folder.config}")
    _print(f"next: curator dataset add NAME SOURCE --dir {folder.root} --epsilon E --delta D ...")


def _folder(arguments: Namespace) -> CuratorFolder:
    folder = CuratorFolder(arguments.dir)
    folder.require()
    return folder


def _add_dataset(arguments: Namespace) -> None:
    folder = _folder(arguments)
    facts = _facts(arguments)
    keys = None
    if arguments.images_key or arguments.labels_key:
        keys = (arguments.images_key or "images", arguments.labels_key or "labels")
    for line in add_dataset(folder, facts, arguments.source, keys, arguments.groups_key):
        _print(line)
    _print(
        f"{facts.name} added with budget ({facts.epsilon:g}, {facts.delta:g}), "
        f"{facts.adjacency}; the lines above are private, the declared facts are public"
    )


def _facts(arguments: Namespace) -> DatasetFacts:
    """Read the declared facts.

    Raises:
        UsageProblem: If one is missing or not valid.
    """
    try:
        shape = [int(part) for part in arguments.image_shape.lower().split("x")]
    except ValueError:
        shape = []
    if len(shape) != _SHAPE_PARTS:
        msg = "--image-shape must be CHANNELSxHEIGHTxWIDTH, such as 1x28x28"
        raise UsageProblem(msg)
    relation, _, unit = arguments.adjacency.partition("-one-")
    try:
        return DatasetFacts(
            name=arguments.name,
            channels=shape[0],
            height=shape[1],
            width=shape[2],
            max_level=arguments.max_level,
            classes=tuple(part.strip() for part in arguments.classes.split(",")),
            nominal_size=arguments.nominal_size,
            max_size=arguments.max_size,
            sampling_rate=arguments.sampling_rate,
            capacity=arguments.capacity,
            relation=relation,
            unit=unit,
            max_records_per_group=arguments.max_records_per_group,
            epsilon=arguments.epsilon,
            delta=arguments.delta,
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "data set"
        msg = f"{name}: {first['msg']}"
        raise UsageProblem(msg) from None


def _list_datasets(arguments: Namespace) -> None:
    ledger = SqlLedger.open_reader(_folder(arguments).ledger, utc_now)
    for state in ledger.datasets():
        facts = DatasetFacts.model_validate_json(state.registration.facts_json)
        _print(Dataset.of(facts).model_dump_json())
    ledger.close()


def _add_analyst(arguments: Namespace) -> None:
    _hand_over(arguments, _folder(arguments).add_analyst)


def _rotate_analyst(arguments: Namespace) -> None:
    _hand_over(arguments, _folder(arguments).rotate_analyst)


def _hand_over(
    arguments: Namespace, make: Callable[[str, Path | None, datetime | None], Path]
) -> None:
    """Make credentials and say what to do with them.

    Raises:
        UsageProblem: If the name or the number of days is not valid.
    """
    days = arguments.expires_days
    if days is not None and not 0 < days <= _MOST_DAYS:
        msg = f"--expires-days must be above 0 and at most {_MOST_DAYS}"
        raise UsageProblem(msg)
    ends = None if days is None else utc_now() + timedelta(days=days)
    try:
        path = make(arguments.name, arguments.out, ends)
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    _print(f"hand {path} to {arguments.name} over a safe channel; it cannot be shown again")


def _revoke_analyst(arguments: Namespace) -> None:
    _folder(arguments).tokens.revoke(arguments.name)
    _print(f"the credentials of {arguments.name} have ended; runs and ledger stay")


def _list_analysts(arguments: Namespace) -> None:
    for caller in _folder(arguments).tokens.callers():
        ends = "never ends" if caller.expires_at is None else f"ends {caller.expires_at:%Y-%m-%d}"
        _print(f"{caller.name}: {caller.role}, {'revoked' if caller.revoked else ends}")


def _serve(arguments: Namespace) -> None:
    folder = _folder(arguments)
    config = _overridden(load_config(folder.config), arguments)
    configure_logging()
    curator = create_curator(folder, config, insecure_loopback=arguments.insecure_loopback)
    drain_on_signals(curator)
    scheme = "http" if arguments.insecure_loopback else "https"
    names = ", ".join(state.registration.name for state in curator.ledger.datasets())
    curator.start()
    _print(
        f"ready: grpc {config.grpc.host}:{curator.rpc.port} "
        f"rest {scheme}://{config.rest.host}:{curator.rest.port} data sets: {names or 'none'}"
    )
    curator.wait()


def _overridden(config: CuratorConfig, arguments: Namespace) -> CuratorConfig:
    """Return the configuration with the command line's ports and addresses.

    Raises:
        UsageProblem: If a port is out of range.
    """
    options = {
        "grpc": {
            "host": arguments.grpc_host,
            "port": arguments.grpc_port,
            "reflection": arguments.reflection or None,
        },
        "rest": {"host": arguments.rest_host, "port": arguments.rest_port},
    }
    values = config.model_dump()
    for section, changes in options.items():
        values[section] |= {key: value for key, value in changes.items() if value is not None}
    try:
        return CuratorConfig.model_validate(values)
    except ValidationError:
        msg = "--grpc-port and --rest-port must be from 0 to 65535"
        raise UsageProblem(msg) from None


def _budget(arguments: Namespace) -> None:
    ledger = SqlLedger.open_reader(_folder(arguments).ledger, utc_now)
    statements = [ledger.statement(state.registration.name) for state in ledger.datasets()]
    ledger.close()
    if arguments.json:
        answers = [
            BudgetAnswer.of(one, [Run.of(run) for run in one.open_runs]) for one in statements
        ]
        _print(json.dumps([answer.model_dump() for answer in answers], indent=1))
        return
    if not statements:
        _print("no data set yet: curator dataset add NAME SOURCE ...")
    for statement in statements:
        _print_statement(statement)


def _print_statement(statement: Statement) -> None:
    budget = statement.budget
    _print(
        f"{statement.dataset}: epsilon {statement.spent_epsilon:.4f} spent, "
        f"{statement.reserved_epsilon:.4f} with open runs, {statement.remaining_epsilon:.4f} left "
        f"of {budget.epsilon:g} at delta {budget.delta:g}, {statement.adjacency}, "
        f"accountant {statement.accountant}"
    )
    for run in statement.open_runs:
        _print(
            f"  run {run.run_id} of {run.analyst}: {run.mechanism}, "
            f"{run.used} of {run.num_steps} steps used"
        )


def _export(arguments: Namespace) -> None:
    ledger = SqlLedger.open_reader(_folder(arguments).ledger, utc_now)
    lines = export_jsonl(ledger)
    if arguments.out is None:
        for line in lines:
            _print(line)
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
        _print(
            f"{totals.dataset}: chain and costs hold; epsilon {totals.spent_epsilon:.6f} spent, "
            f"{totals.reserved_epsilon:.6f} with open runs; "
            f"a second accountant finds {totals.second_spent_epsilon:.6f}"
        )


def _explain(arguments: Namespace) -> None:
    try:
        lines = list(explained(arguments))
    except ValueError as problem:
        raise UsageProblem(str(problem)) from None
    for line in lines:
        _print(line)


def _audit(arguments: Namespace) -> None:
    from curator.audit.cli import run_audit  # a second to import, for this command alone

    run_audit(arguments)


COMMANDS: dict[str, Callable[[Namespace], None]] = {
    "init": _init,
    "dataset add": _add_dataset,
    "dataset list": _list_datasets,
    "analyst add": _add_analyst,
    "analyst rotate": _rotate_analyst,
    "analyst revoke": _revoke_analyst,
    "analyst list": _list_analysts,
    "serve": _serve,
    "budget": _budget,
    "ledger export": _export,
    "ledger verify": _verify,
    "audit": _audit,
    "accountant explain": _explain,
}
