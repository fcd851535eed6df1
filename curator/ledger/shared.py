"""Small checks that every implementation of the ledger makes in the same way."""

from __future__ import annotations

import hashlib

from curator.ledger import entries
from curator.ledger.book import Book
from curator.ledger.datasets_and_runs import RunState
from curator.ledger.problems import ChainBroken
from curator.ledger.transitions import after


def is_repeated_mark(run: RunState, event: entries.RunEvent) -> bool:
    """Whether the present holder asks for the present mark again, which writes nothing."""
    if not isinstance(event, entries.MarkAdvanced) or event.used != run.used:
        return False
    return after(run, event, "") == run


def check_kept(book: Book, run: RunState, event: entries.RunEvent) -> None:
    """Check that nothing that a run released is kept once the steward has stopped its data set.

    Only who writes checks it, so that a chain of before this rule is still replayed.

    Raises:
        DatasetPaused: If the data set is paused.
        DatasetRetired: If it is retired or erased.
    """
    if isinstance(event, entries.SetupStored):
        after(run, event, "")  # whose run it is, and whether it may, come first
        book.dataset(run.dataset).check_active()


def checked_payload(run: RunState, payload: bytes | None) -> bytes | None:
    """Return the payload if it is what the run's entry says, None if there should be none.

    Raises:
        ChainBroken: If the bytes are missing or were changed.
    """
    if not run.setup_digest and payload is None:
        return None
    if payload is None or hashlib.sha256(payload).hexdigest() != run.setup_digest:
        msg = f"the stored setup of run {run.run_id!r} is not what its entry says"
        raise ChainBroken(msg)
    return payload
