"""The chain's head, kept in a file outside the database, so that an older copy is noticed.

Beside the head it keeps, for each data set, its registration, its present cap and status, and what
is reserved of it. Whatever was delivered was reserved, so after a restored copy that is an upper
bound of what the copy may have forgotten. The file is written after each change is durable and
before anything relies on it: it can be behind the ledger after a crash, never ahead. The head in
it never moves down, and never to another chain; only what accepts a restored ledger may do that.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Self, final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from curator.errors import LedgerUnavailable
from curator.ledger.book import Book
from curator.ledger.chain import GENESIS
from curator.ledger.datasets_and_runs import DatasetStatus
from curator.ledger.entries import dataset_fields
from curator.ledger.problems import LedgerRestored
from curator.system.bounded_file import TooLarge, read_bounded
from curator.system.new_file import write_private
from curator.validation_errors import first_problem

FORMAT: Final = "datasets-version-1"
MOST_BYTES: Final = 1 << 26  # a few kilobytes for each data set

_Units = Annotated[str, Field(pattern=r"^([0-9]{1,4096}|inf)$")]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Registration(_Part):
    name: str
    epsilon: Annotated[float, Field(gt=0)]
    delta: Annotated[float, Field(ge=0, le=1)]
    relation: str
    unit: str
    facts_json: str


class _Dataset(_Part):
    registration: _Registration
    favourite: float | None = None
    cap: Annotated[float, Field(ge=0)]
    status: DatasetStatus
    reserved: list[_Units]


class _Head(_Part):
    seq: Annotated[int, Field(ge=0)]
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    datasets: Annotated[dict[str, _Dataset], Field(alias=FORMAT)]
    servers: Annotated[int, Field(ge=0)] = 0


def checked_head(content: bytes | str) -> dict[str, Any]:
    """Return the file's values as they are, once they are known to be of the right kinds.

    Raises:
        ValueError: If they are not; the text names the first field that is wrong.
    """
    try:
        _Head.model_validate_json(content)
    except ValidationError as error:
        raise ValueError(first_problem(error, "the file")) from None
    value: dict[str, Any] = json.loads(content)
    return value


HOW_TO_ACCEPT: Final = "'curator ledger accept-restored --dir DIR --reason TEXT'"

Head = tuple[int, str]
"""The number and the digest of an entry."""


@dataclass(slots=True)
class Note:
    """What is known of a ledger: its head, and its data sets as plain values."""

    head: Head = (0, GENESIS)
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)
    servers: int = 0  # of the database, until this was noted

    @classmethod
    def from_text(cls, text: str | bytes) -> Self:
        """Return what `to_text` wrote.

        Raises:
            ValueError: If it is not that.
        """
        value = checked_head(text)
        head = int(value["seq"]), str(value["digest"])
        return cls(head=head, datasets=value[FORMAT], servers=int(value.get("servers", 0)))

    def to_text(self) -> str:
        """Return it as JSON."""
        seq, digest = self.head
        value = {"seq": seq, "digest": digest, FORMAT: self.datasets, "servers": self.servers}
        return json.dumps(value, sort_keys=True)

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
            return Note.from_text(read_bounded(self._path, MOST_BYTES, "the ledger's head"))
        except FileNotFoundError:
            return Note()
        except (OSError, ValueError, TooLarge) as error:
            why = "" if isinstance(error, OSError) else f" ({error})"
            msg = f"the ledger's head in {self._path} cannot be read{why}: put the right file back"
            raise LedgerUnavailable(msg) from error

    def advance(self, note: Note, is_known: Collection[Head]) -> Head:
        """Write a note in place of one whose head is known to be in the same chain.

        Args:
            note: Of a chain that has all of `is_known`.
            is_known: Heads that the file may have; with any other nothing is written.

        Returns:
            The head that the file had; if it is further than the note's, it stays.

        Raises:
            LedgerUnavailable: If it cannot be written; then nothing may rely on the change.
        """
        with self._alone():
            before = self.read()
            if before.head in is_known and before.head[0] <= note.head[0] and before != note:
                self._write(note)
            return before.head

    def check(self, digest_of: Callable[[int], str | None]) -> None:
        """Check that a ledger has what is known of it.

        Args:
            digest_of: Returns the digest of an entry, None if there is none of that number.

        Raises:
            LedgerRestored: If it lacks the entry, or has another one there.
        """
        seq, digest = self.read().head
        if digest_of(seq) != digest:
            raise self.missing(seq)

    def missing(self, seq: int) -> LedgerRestored:
        """Return the error that says what a ledger lacks and what to do."""
        msg = (
            f"this ledger does not have entry {seq} as {self._path} knows it: an older copy "
            "was put in its place, so spent budget may be missing. Put the right ledger back, "
            f"or count the largest possible loss as spent, for ever: {HOW_TO_ACCEPT}"
        )
        return LedgerRestored(msg)

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
        try:
            write_private(self._path, note.to_text().encode())
        except OSError as error:
            msg = f"the ledger's head cannot be kept in {self._path}"
            raise LedgerUnavailable(msg) from error
