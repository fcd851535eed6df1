from __future__ import annotations

import json

import pytest

from curator.accounting.rule import BudgetRule
from curator.ledger import entries
from tests.contract.ledger_values import BUDGET, SETUP, opening, registration

EVENTS: list[entries.LedgerEvent] = [
    entries.DatasetRegistered(registration=registration(), rule=BudgetRule.register(BUDGET)),
    entries.RunOpened(opening=opening(setup=SETUP), holder="h"),
    entries.RunAdopted(run_id="r", holder="h"),
    entries.MarkAdvanced(run_id="r", holder="h", epoch=1, used=2),
    entries.SetupBegun(run_id="r", holder="h", epoch=1),
    entries.SetupStored(run_id="r", holder="h", epoch=1, digest="0" * 64),
    entries.RunRelinquished(run_id="r", holder="h", epoch=1, used=1),
    entries.RunClosed(run_id="r", holder="h", epoch=1, used=2, reason="done"),
]


@pytest.mark.parametrize("event", EVENTS)
def test_round_trip(event: entries.LedgerEvent) -> None:
    assert entries.decode(*entries.encode(event)) == event


@pytest.mark.parametrize("event", EVENTS)
def test_a_missing_or_unknown_field_or_another_type_is_refused(
    event: entries.LedgerEvent,
) -> None:
    kind, body = entries.encode(event)
    value = json.loads(body)
    for name in value:
        for changed in (
            {key: item for key, item in value.items() if key != name},
            {**value, name: ["?"]},
            {**value, name: None},
        ):
            with pytest.raises(ValueError):  # noqa: PT011
                entries.decode(kind, json.dumps(changed))
    with pytest.raises(ValueError, match="entry of kind"):
        entries.decode(kind, json.dumps({**value, "extra": 1}))


@pytest.mark.parametrize("body", ["[]", "7", "{", '"x"', "null"])
def test_other_json_is_refused(body: str) -> None:
    for kind in ("dataset-registered", "run-opened", "run-closed", "unheard-of"):
        with pytest.raises(ValueError):  # noqa: PT011
            entries.decode(kind, body)
