"""What a replica knows of a ledger and the database lacks, left there for the other replicas.

Each replica keeps a head of its own, so after a failover only the one that wrote last may know
that something is missing. It says so here, once, with all that it knows; no replica writes beside
an objection, and accepting the ledger as it is counts every objector's loss.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from curator.ledger.anchor import HOW_TO_ACCEPT, Note
from curator.ledger.problems import LedgerRestored
from curator.ledger.schema import meta

_PREFIX = "objection-"
_KEY_LENGTH = 32
_OURS = meta.c.key.startswith(_PREFIX, autoescape=True)


def insert_objection(connection: Connection, note: Note) -> None:
    """Say that this chain lacks what `note` knows."""
    key = f"{_PREFIX}{note.head[1]}"[:_KEY_LENGTH]
    connection.execute(delete(meta).where(meta.c.key == key))
    connection.execute(insert(meta).values(key=key, value=note.to_text()))


def load_objections(connection: Connection) -> tuple[Note, ...]:
    """Return what all objectors know."""
    query = select(meta.c.value).where(_OURS).order_by(meta.c.key)
    return tuple(Note.from_text(text) for text in connection.execute(query).scalars())


def delete_objections(connection: Connection) -> None:
    """Forget all of them; only for what has counted them."""
    connection.execute(delete(meta).where(_OURS))


def refuse_objections(connection: Connection) -> None:
    """Check that no other replica misses anything.

    Raises:
        LedgerRestored: If one does.
    """
    if connection.execute(select(meta.c.key).where(_OURS).limit(1)).first() is not None:
        msg = (
            "another curator of this ledger knows entries that the database lacks: it went back, "
            "so spent budget may be missing. Put the right database back, or stop all curators "
            f"and count the largest possible loss as spent, for ever: {HOW_TO_ACCEPT}"
        )
        raise LedgerRestored(msg)
