"""The chain's head, kept in a file outside the database, so that an older copy is noticed.

Beside the head it keeps, for each data set, its registration, its present cap and status, and what
is reserved of it. Whatever was delivered was reserved, so after a restored copy that is an upper
bound of what the copy may have forgotten. The file is written after each change is durable and
before anything relies on it: it can be behind the ledger after a crash, never ahead.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from curator.bounded import TooLarge, read_bounded
from curator.errors import LedgerUnavailable
from curator.ledger.book import Book
from curator.ledger.chain import GENESIS
from curator.ledger.entries import dataset_fields
from curator.ledger.head_file import FORMAT, MOST_BYTES, checked_head
from curator.ledger.problems import LedgerRestored
from curator.new_file import write_private


@dataclass(slots=True)
class Note:
    """What is known of a ledger: its head, and its data sets as plain values."""

    head: tuple[int, str] = (0, GENESIS)
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)

    def see(self, book: Book, name: str) -> None:
        """Take over one data set.

        Args:
            book: With the data set and all that counts for its account.
            name: Which one.
        """
        state = book.dataset(name)
        self.datasets[name] = {
            "registration": dataset_fields(state.registration),
            "favourite": state.rule.chosen,
            "cap": state.cap,
            "status": str(state.status),
            "reserved": book.account(name).reserved.to_json(),
        }


@final
class HeadAnchor:
    """The file; one object for each ledger that is open in this process."""

    def __init__(self, path: Path) -> None:
        """Use the file at `path`; a missing one knows nothing yet."""
        self._path = path
        self._lock = threading.Lock()

    def read(self) -> Note:
        """Return what is known.

        Raises:
            LedgerUnavailable: If the file cannot be read or is not an anchor.
        """
        try:
            value = checked_head(read_bounded(self._path, MOST_BYTES, "the ledger's head"))
            return Note(head=(int(value["seq"]), str(value["digest"])), datasets=value[FORMAT])
        except FileNotFoundError:
            return Note()
        except (OSError, ValueError, TooLarge) as error:
            why = "" if isinstance(error, OSError) else f" ({error})"
            msg = f"the ledger's head in {self._path} cannot be read{why}: put the right file back"
            raise LedgerUnavailable(msg) from error

    @contextmanager
    def writing(self) -> Iterator[Note]:
        """Give the note to change, and write it whole.

        Raises:
            LedgerUnavailable: If it cannot be written; then nothing may rely on the change.
        """
        with self._alone():
            note = self.read()
            before = (note.head, dict(note.datasets))
            yield note
            if (note.head, note.datasets) != before:
                self._write(note)

    def check(self, digest_of: Callable[[int], str | None]) -> None:
        """Check that a ledger has what is known of it.

        Args:
            digest_of: Returns the digest of an entry, None if there is none of that number.

        Raises:
            LedgerRestored: If it lacks the entry, or has another one there.
        """
        seq, digest = self.read().head
        if digest_of(seq) != digest:
            msg = (
                f"this ledger does not have entry {seq} as {self._path} knows it: an older copy "
                "was put in its place, so spent budget may be missing. Put the right ledger back, "
                "or count the largest possible loss as spent, for ever: "
                "'curator ledger accept-restored --dir DIR --reason TEXT'"
            )
            raise LedgerRestored(msg)

    def replace(self, note: Note) -> None:
        """Forget what was known and know `note`; only for what accepts a restored ledger."""
        with self._alone():
            self._write(note)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads and processes from the file.

        Raises:
            LedgerUnavailable: If the file's folder cannot be written.
        """
        with self._lock:
            try:
                lock = os.open(
                    self._path.with_name(self._path.name + ".lock"),
                    os.O_RDWR | os.O_CREAT | os.O_CLOEXEC,
                    0o600,
                )
            except OSError as error:
                msg = f"the folder of {self._path} cannot be written"
                raise LedgerUnavailable(msg) from error
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            finally:
                os.close(lock)

    def _write(self, note: Note) -> None:
        seq, digest = note.head
        value = {"seq": seq, "digest": digest, FORMAT: note.datasets}
        try:
            write_private(self._path, json.dumps(value, sort_keys=True).encode())
        except OSError as error:
            msg = f"the ledger's head cannot be kept in {self._path}"
            raise LedgerUnavailable(msg) from error
