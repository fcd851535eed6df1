"""What a start has verified, kept in the curator's folder so that the next one need not replay it.

A checkpoint only saves time. It counts if the same software wrote it and the chain has its entry;
if anything does not fit it is left aside and everything is replayed, which then says what is wrong,
if anything is. Whoever can write into the curator's folder could make one up, and could replace the
keys, the images and the head there too; an export is checked with nothing but itself.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

from sqlalchemy import Connection

from curator.ledger import rows, run_rows
from curator.ledger.book import Book, Place
from curator.ledger.problems import ChainBroken
from curator.ledger.verify import Known, Watcher, verify_rows

WORTH: Final = 10_000
"""Entries that are replayed in a second or two: a checkpoint is kept when there were more."""
_PARTS: Final = 10
"""While a curator serves, a new checkpoint is due when a tenth of the entries came since."""

_logger = logging.getLogger(__name__)


@final
class Checkpoint:
    """The file, and what watches the entries at a start."""

    def __init__(self, path: Path | None, watcher: Watcher | None = None) -> None:
        """Use the file at `path`, or none; without a watcher it is read and never written."""
        self._path = path
        self._watcher = watcher
        self.seq = 0  # the last entry that it covers, once it was used

    def is_behind(self, head: int) -> bool:
        """Return whether so much was written since that a new one is worth its verification."""
        return head - self.seq >= max(WORTH, head // _PARTS)

    def verify(self, connection: Connection) -> None:
        """Verify everything, from the checkpoint on if it fits.

        Raises:
            ChainBroken: If the entries, or what is shown of them, were changed.
        """
        known = self._read(connection)
        begun = known.place.head[0]
        try:
            done = verify_rows(connection, known, self._watcher)
        except ChainBroken:
            if not begun:
                raise
            _logger.warning("the ledger does not fit its checkpoint; all of it is replayed")
            done, begun = verify_rows(connection, self._nothing(), self._watcher), 0
        self.seq = begun
        if self._path and self._watcher and done.place.head[0] - begun >= WORTH:
            self.seq = done.place.head[0]
            _write(self._path, done, self._watcher)

    def _nothing(self) -> Known:
        known = Known()
        if self._watcher is not None:
            self._watcher.go_on({}, known.place)
        return known

    def _read(self, connection: Connection) -> Known:
        """Return what the file says if it is of this software and of this chain, else nothing."""
        if self._path is None:
            return self._nothing()
        try:
            digest, _, text = self._path.read_text(encoding="ascii").partition("\n")
            if digest != _digest(text):
                _logger.warning("the ledger's checkpoint is damaged; everything is replayed")
                return self._nothing()
            value = json.loads(text)
            known = _known(value)
            seq, head = known.place.head
            if value["software"] != software() or rows.load_digest(connection, seq) != head:
                return self._nothing()
            if self._watcher is not None:
                self._watcher.go_on(value["watched"], known.place)
        except FileNotFoundError:
            return self._nothing()
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            _logger.warning("the ledger's checkpoint cannot be read; everything is replayed")
            return self._nothing()
        return known


def _write(path: Path, known: Known, watcher: Watcher) -> None:
    book = known.place.book
    text = json.dumps(
        {
            "software": software(),
            "head": known.place.head,
            "position": known.position,
            "closed": known.closed,
            "datasets": [rows.row_of_dataset(state) for state in book.datasets.values()],
            "runs": [run_rows.row_of(run) for run in book.runs.values()],
            "totals": rows.rows_of_totals(book.totals),
            "watched": watcher.kept(),
        }
    )
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(f"{_digest(text)}\n{text}")
            stream.flush()
            os.fsync(stream.fileno())
        partial.rename(path)
    except OSError:
        _logger.warning("the ledger's checkpoint could not be kept; the next start is slower")
        with suppress(OSError):
            partial.unlink()


def _known(value: dict[str, Any]) -> Known:
    seq, digest = value["head"]
    states = map(rows.dataset_of, value["datasets"])
    runs = [run_rows.run_of(row.values()) for row in value["runs"]]
    book = Book(
        datasets={state.registration.name: state for state in states},
        runs={run.run_id: run for run in runs},
        totals=rows.totals_of(value["totals"]),
    )
    place = Place(book=book, head=(int(seq), str(digest)))
    return Known(place, int(value["position"]), str(value["closed"]))


UNKNOWN: Final = Checkpoint(None)
"""Nothing was verified before."""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def software() -> str:
    """Return the digest of the code that replays entries; another one may refuse other things."""
    curator, found = Path(__file__).resolve().parent.parent, hashlib.sha256()
    for folder in ("accounting", "ledger", "privacy"):
        for path in sorted((curator / folder).glob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()
