"""Whether what a PostgreSQL server confirms outlives that server, as far as it tells.

A commit that waits for its standby is in both when it is confirmed. One that does not wait may be
lost when the standby takes over; the curators notice that and stop, but what was lost is counted
only by accepting it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from sqlalchemy import Connection, text

from curator.ledger import postgres
from curator.ledger.transactions import Store

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Replication:
    """What a server says of itself; nothing of it depends on what the ledger holds."""

    version: str
    synchronous_commit: str  # of the ledger's own connections
    synchronous_standby_names: str  # empty: no commit waits for a standby
    num_standbys: int  # that receive now
    num_synchronous: int | None  # of these, for whom commits wait; None if the role may not know

    @property
    def is_synchronous(self) -> bool:
        """Whether a commit waits until a standby has it on its disk."""
        waits = self.synchronous_commit in {"on", "remote_apply"}
        return waits and bool(self.synchronous_standby_names.strip())

    @property
    def may_forget(self) -> bool:
        """Whether a standby may take over without the last charges."""
        return self.num_standbys > 0 and not self.is_synchronous


def replication_of(location: str) -> Replication:
    """Ask the server of a ledger.

    Raises:
        LedgerUnavailable: If it does not answer.
    """
    store = Store(reader=postgres.reader_engine(postgres.database_url(location)))
    try:
        with store.reading() as connection:
            return read_replication(connection)
    finally:
        store.close()


def read_replication(connection: Connection) -> Replication:
    """Ask over a connection of the ledger."""
    settings = {
        name: str(connection.execute(text(f"SHOW {name}")).scalar_one())
        for name in ("synchronous_commit", "synchronous_standby_names")
    }
    states = connection.execute(
        text("SELECT sync_state FROM pg_stat_replication WHERE application_name <> 'pg_basebackup'")
    ).scalars()
    standbys = list(states)  # one for each; without the right to see it, its state is null
    known = [state for state in standbys if state is not None]
    synchronous = sum(state in {"sync", "quorum"} for state in known)
    return Replication(
        version=str(connection.execute(text("SHOW server_version")).scalar_one()),
        num_standbys=len(standbys),
        num_synchronous=synchronous if len(known) == len(standbys) else None,
        **settings,
    )


def warn_of_forgetful_failover(connection: Connection) -> None:
    """Say in the log when the server has standbys for which no commit waits."""
    if read_replication(connection).may_forget:
        _logger.warning(
            "the ledger's database has standbys, and commits do not wait for them: a failover may "
            "lose the last charges; set synchronous_standby_names"
        )
