"""What a ledger in a database shows; every answer is read off one snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from curator.accounting.cost import Cost
from curator.budget_numbers import BudgetNumbers
from curator.ledger import rows
from curator.ledger.book import Book
from curator.ledger.chain import Entry
from curator.ledger.records import Account, DatasetState, RunState, Statement
from curator.ledger.shared import checked_payload, statement_of
from curator.ledger.store import Store
from curator.ledger.verify import verify_rows

_PAGE = 1000


class SqlReadings:
    """The half of `SqlLedger` that changes nothing."""

    def __init__(self, store: Store) -> None:
        """Keep the store."""
        self._store = store

    def close(self) -> None:
        """Close every connection and give the lock back; nothing is written after that."""
        self._store.close()

    def dataset(self, name: str) -> DatasetState:
        """See `Ledger`."""
        with self._store.reading() as connection:
            return Book(datasets=rows.load_datasets(connection, name)).dataset(name)

    def datasets(self) -> tuple[DatasetState, ...]:
        """See `Ledger`."""
        with self._store.reading() as connection:
            found = rows.load_datasets(connection)
        return tuple(found[name] for name in sorted(found))

    def account(self, name: str) -> Account:
        """See `Ledger`."""
        with self._store.reading() as connection:
            book = rows.load_account(connection, name)
        return book.account(name)

    def share(self, name: str, analyst: str) -> Account | None:
        """See `Ledger`."""
        with self._store.reading() as connection:
            book = rows.load_account(connection, name)
        return book.share(name, analyst)

    def statement(self, name: str) -> Statement:
        """See `Ledger`."""
        with self._store.reading() as connection:
            book = rows.load_account(connection, name)
        return statement_of(book, name)

    def would_reserve(self, dataset: str, cost: Cost) -> BudgetNumbers:
        """See `Ledger`."""
        return self.account(dataset).numbers(cost)

    def setup_payload(self, run_id: str) -> bytes | None:
        """See `Ledger`."""
        with self._store.reading() as connection:
            run = Book(runs=rows.load_runs(connection, run_id=run_id)).run(run_id)
            return checked_payload(run, rows.load_payload(connection, run_id))

    def run(self, run_id: str) -> RunState:
        """See `Ledger`."""
        with self._store.reading() as connection:
            return Book(runs=rows.load_runs(connection, run_id=run_id)).run(run_id)

    def runs(self, dataset: str | None = None, analyst: str | None = None) -> tuple[RunState, ...]:
        """See `Ledger`."""
        with self._store.reading() as connection:
            return tuple(rows.load_runs(connection, dataset=dataset, analyst=analyst).values())

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """See `Ledger`; entries appended meanwhile are returned too."""
        while True:
            with self._store.reading() as connection:
                page = rows.load_entries(connection, after, _PAGE)
            if not page:
                return
            yield from page
            after = page[-1].seq

    def head(self) -> tuple[int, str]:
        """See `Ledger`."""
        with self._store.reading() as connection:
            return rows.load_head(connection)

    def verify(self) -> None:
        """See `Ledger`.

        Raises:
            ChainBroken: If an entry, a shown row or a stored setup was changed.
        """
        with self._store.reading() as connection:
            verify_rows(connection)
