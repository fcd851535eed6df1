from __future__ import annotations

import hashlib
import math

import pytest

from curator.ledger.chain import GENESIS, Entry, canonical_json

FIRST = Entry.following((0, GENESIS), "2026-01-01", "kind", "{}")
SECOND = Entry.following((1, FIRST.digest), "2026-01-02", "kind", '{"a":1}')


def test_entries_follow_each_other() -> None:
    assert FIRST.follows((0, GENESIS))
    assert SECOND.follows((1, FIRST.digest))
    assert not SECOND.follows((0, GENESIS))


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 3},
        {"at": "2026-01-03"},
        {"kind": "other"},
        {"body": '{"a":2}'},
        {"previous": GENESIS},
        {"digest": GENESIS},
    ],
)
def test_any_change_shows(change: dict[str, object]) -> None:
    assert not SECOND._replace(**change).follows((1, FIRST.digest))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", '{"a":"\\u00e9"}', 'é"\\\n\t\x7f\u2028', "{}{:d}"])
def test_a_digest_is_of_the_canonical_text(text: str) -> None:
    entry = Entry.following((6, GENESIS), text, text, text)
    covered = {key: value for key, value in entry._asdict().items() if key != "digest"}
    assert entry.digest == hashlib.sha256(canonical_json(covered).encode()).hexdigest()


def test_fields_do_not_run_into_each_other() -> None:
    a = Entry.following((0, GENESIS), "x", "yz", "{}")
    b = Entry.following((0, GENESIS), "xy", "z", "{}")
    assert a.digest != b.digest


def test_canonical_text() -> None:
    assert canonical_json({"b": 1, "a": "é"}) == '{"a":"\\u00e9","b":1}'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": math.nan})
