from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from curator.ledger.ledger import Ledger
from curator.ledger.memory import MemoryLedger
from curator.ledger.sql_ledger import SqlLedger
from tests.contract.ledger_contract import LedgerContract
from tests.contract.postgres_server import postgres_or_skip
from tests.fakes.clock import FakeClock


class TestMemoryLedger(LedgerContract):
    @pytest.fixture
    def ledger(self) -> Ledger:  # type: ignore[override]
        return MemoryLedger(FakeClock())


class TestSqlLedger(LedgerContract):
    @pytest.fixture
    def ledger(self, tmp_path: Path) -> Iterator[Ledger]:  # type: ignore[override]
        ledger = SqlLedger.open_writer(tmp_path / "ledger.sqlite", FakeClock())
        yield ledger
        ledger.close()


class TestPostgresLedger(LedgerContract):
    @pytest.fixture
    def ledger(self) -> Iterator[Ledger]:  # type: ignore[override]
        ledger = SqlLedger.open_database(postgres_or_skip().fresh(), FakeClock())
        yield ledger
        ledger.close()
