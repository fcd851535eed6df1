"""What is appended by the change that settles comes on top of what was lost."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine

from curator.errors import LedgerUnavailable
from curator.ledger import replicas, schema
from curator.ledger.replicas import Settling, load_settled


def test_the_entry_that_settles_is_not_from_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(replicas, "_server", lambda _: "new")
    waiting = Settling(10.0, lambda: now[0])
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        schema.metadata.create_all(connection)
        with pytest.raises(LedgerUnavailable, match="seconds to go"):
            waiting.check(connection, 7, is_appended=True)
        now[0] = 11.0
        waiting.check(connection, 7, is_appended=True)  # entry 8 is in this transaction already
        assert load_settled(connection).after == 7
    engine.dispose()
