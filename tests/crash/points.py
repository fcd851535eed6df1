"""The named points at which a process is killed, and the hook that kills it there.

A point is `operation:moment`; the moments are those of one transaction. The child plants them
from outside, so the ledger knows nothing of them.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Connection, Engine, event

from curator.ledger import rows
from curator.ledger.chain import Entry
from curator.ledger.sql_ledger import SqlLedger

METHODS: Final = {
    "register": "register_dataset",
    "open": "open_run",
    "begin": "begin_setup",
    "store": "store_setup",
    "advance": "advance_mark",
    "adopt": "adopt_run",
    "relinquish": "relinquish_run",
    "close": "close_run",
    "decide": "decide",
}
MOMENTS: Final = ("beginning", "entry-written", "committing", "returning")
DELIVERY: Final = ("advance:charged", "advance:delivered")
MIGRATION: Final = ("migrate:beginning", "migrate:committing", "migrate:returning")
ANYWHERE: Final = "anywhere"
POINTS: Final = (
    *MIGRATION,
    *(f"{operation}:{moment}" for operation in METHODS for moment in MOMENTS),
    *DELIVERY,
    ANYWHERE,
)
ONCE: Final = ("migrate", "register")
"""Operations that one life of the workload does once; the others happen three times or more."""


class Reaper:
    """Kills this process when it has come to one point often enough."""

    def __init__(self, point: str, times: int) -> None:
        self._point = point
        self._left = times
        self._operation = ""

    def reach(self, moment: str) -> None:
        if f"{self._operation}:{moment}" == self._point:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)

    def during(self, operation: str, call: Callable[[], Any]) -> Any:
        """Call, and be inside `operation` meanwhile."""
        self._operation = operation
        result = call()
        self.reach("returning")
        self._operation = ""
        return result

    def deliver(self, say: Callable[..., None], *what: object) -> None:
        """Deliver one step of the run that was charged last."""
        self._operation = "advance"
        self.reach("charged")
        say(*what)
        self.reach("delivered")
        self._operation = ""

    def plant(self) -> None:
        """Hook into every transaction of this process."""
        event.listen(Engine, "begin", lambda _: self.reach("beginning"))
        event.listen(Engine, "commit", lambda _: self.reach("committing"))
        insert = rows.insert_entry

        def insert_entry(connection: Connection, entry: Entry) -> None:
            insert(connection, entry)
            self.reach("entry-written")

        rows.insert_entry = insert_entry
        for operation, name in METHODS.items():
            setattr(SqlLedger, name, self._around(operation, getattr(SqlLedger, name)))

    def _around(self, operation: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wrapped(*arguments: Any) -> Any:
            return self.during(operation, lambda: method(*arguments))

        return wrapped
