"""Which database holds the ledger, whether it can be read, and whether it is the one known here.

A file that no curator serves is opened as one that cannot change, so that SQLite makes no file
beside it; nothing is locked, recovered or upgraded.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect
from sqlalchemy.exc import SQLAlchemyError

from curator.clock import utc_now
from curator.doctor.finding import Finding, attention, fault, well
from curator.doctor.subject import Subject
from curator.errors import LedgerUnavailable
from curator.folder import CuratorFolder
from curator.ledger import connect, postgres, rows, schema
from curator.ledger.anchor import HeadAnchor
from curator.ledger.database_errors import in_database_words
from curator.ledger.problems import LedgerFromTheFuture, LedgerRestored

_SKEW_SECONDS: Final = 5.0
_RECOVER: Final = "read 'recover after a crash' in the documentation before anything else"


def ledger(subject: Subject) -> Finding:
    """Read the ledger's last entry, and compare it with the head that is kept outside.

    Args:
        subject: Its folder and configuration say where the ledger is.
    """
    folder = subject.folder
    if folder is None:
        return well("no folder is named")
    kind, where = "SQLite", str(folder.ledger)
    try:
        if subject.config.database:
            url = postgres.database_url(subject.config.database)
            kind, where = "PostgreSQL", f"{url.host or 'a local socket'}, database {url.database}"
            engine = postgres.reader_engine(url)
        elif not folder.ledger.exists():
            return fault(f"{where} is missing", _missing(folder), kind=kind)
        elif _has_log(folder) and not subject.is_served:
            return _beside_a_log(f"{kind}, {where}", is_busy=subject.is_busy)
        else:
            engine = _file_engine(folder, is_served=subject.is_served)
        anchor = HeadAnchor(folder.head_file(subject.config))
        return _read(engine, anchor, f"{kind}, {where}", _stored(folder))
    except (LedgerFromTheFuture, LedgerRestored) as problem:
        return fault(f"{kind}, {where}: {problem}", _RECOVER, kind=kind)
    except (LedgerUnavailable, SQLAlchemyError, OSError) as problem:
        said = str(problem) if isinstance(problem, LedgerUnavailable) else type(problem).__name__
        said = in_database_words(problem) or said
        return fault(
            f"{kind}, {where}: cannot be read: {said}",
            "check that it is there, that the user that serves may read it, and, of a server, "
            "that it runs and its URL and password are right",
            kind=kind,
        )


def _beside_a_log(where: str, *, is_busy: bool) -> Finding:
    """Return what a log of changes means that nobody who can be asked has open."""
    if is_busy:
        return attention(
            f"{where}: in use by a curator that is starting or stopping, or by a command",
            "wait for the ready line of 'curator serve', or for the command, then ask again",
            kind="SQLite",
        )
    return attention(
        f"{where}: a log of changes lies beside it, and no curator serves",
        "a process was killed: the next 'curator serve' takes the log in and loses nothing",
        kind="SQLite",
    )


def _missing(folder: CuratorFolder) -> str:
    """Return what to do about a ledger that is not there."""
    if folder.config.exists():
        return f"if it was ever there: {_RECOVER}; if not, run 'curator init' again"
    return "run 'curator init'"


def _has_log(folder: CuratorFolder) -> bool:
    """Return whether changes are not in the ledger's file itself yet."""
    log = folder.ledger.with_name(folder.ledger.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def _file_engine(folder: CuratorFolder, *, is_served: bool) -> Engine:
    """Return an engine that makes no file; beside a curator it reads the log too."""
    name = f"file:{quote(str(folder.ledger.absolute()))}"
    query = {"uri": "true", "mode": "ro"} | ({} if is_served else {"immutable": "1"})
    engine = create_engine(URL.create("sqlite", database=name, query=query))
    event.listen(engine, "connect", schema.prepare_reader)
    return engine


def _stored(folder: CuratorFolder) -> frozenset[str] | None:
    """Return the names of which images are stored; None if that cannot be seen."""
    above = folder.images("any").parent
    try:
        found = list(above.iterdir()) if above.is_dir() else []
    except OSError:
        return None
    return frozenset(one.name for one in found if one.is_dir() and one.name[0] != ".")


def _read(engine: Engine, anchor: HeadAnchor, where: str, stored: frozenset[str] | None) -> Finding:
    try:
        with engine.connect() as connection:
            return _of_entries(connection, anchor, where, stored)
    finally:
        engine.dispose()


def _of_entries(
    connection: Connection, anchor: HeadAnchor, where: str, stored: frozenset[str] | None
) -> Finding:
    connect.check_anchor(connection, anchor)
    if not inspect(connection).has_table(schema.meta.name):
        return well(f"{where}: reachable, no ledger in it yet; the first start makes it")
    try:
        connect.refuse_other_versions(connection)
    except LedgerUnavailable as problem:
        return attention(f"{where}: {problem}", "back it up, then run 'curator serve'")
    number, _ = rows.load_head(connection)
    last = _last_time(connection, number)
    facts: dict[str, object] = {"where": where, "entries": number, "last_entry": last}
    words = f"{where}: readable, {number} entries"
    if last is None:
        return well(words, **facts)
    ahead = (datetime.fromisoformat(last) - utc_now()).total_seconds()
    if ahead > _SKEW_SECONDS:
        return attention(
            f"{words}, the last one {ahead:.0f} s in the future",
            "set the clock; the order of entries holds whatever their times say",
            **facts,
        )
    if stored is None:
        return attention(
            f"{words}; the folder datasets/ cannot be listed",
            "let the user that serves read it: 'curator serve' could not load the images either",
            **facts,
        )
    unknown = sorted(stored - rows.load_datasets(connection).keys())
    if unknown:
        return attention(
            f"{words}; images are stored that it does not know: {', '.join(unknown)}",
            "a 'dataset add' is running, or was killed: then add the data set again under the same "
            "name, which takes their place, or remove their folders under datasets/",
            **facts,
        )
    return well(f"{words}, the last one of {last}", **facts)


def _last_time(connection: Connection, number: int) -> str | None:
    entries = rows.load_entries(connection, number - 1, 1)
    return entries[0].at if entries else None
