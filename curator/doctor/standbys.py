"""Whether a failover of the ledger's database may forget charges."""

from __future__ import annotations

from dataclasses import asdict

from curator.doctor.finding import Finding, attention, well
from curator.doctor.subject import Subject
from curator.errors import LedgerUnavailable
from curator.ledger.postgres import Replication, replication_of


def standbys(subject: Subject) -> Finding:
    """Ask PostgreSQL about its standbys; a file has none."""
    location = subject.config.database
    if not location:
        return well("the ledger is a file, which has no standbys")
    try:
        return judged(replication_of(location))
    except LedgerUnavailable:
        return attention("the database does not answer", "see the line of the ledger")


def judged(told: Replication) -> Finding:
    """Return what a server's settings mean."""
    facts = asdict(told)
    words = (
        f"PostgreSQL {told.version}, standbys {told.num_standbys}, synchronous_standby_names "
        f"{told.synchronous_standby_names!r}, synchronous_commit {told.synchronous_commit}"
    )
    if told.may_forget:
        step = (
            "set synchronous_standby_names on the server: without it a failover may lose the last "
            "charges, which stops every curator until the loss is counted"
        )
        return attention(f"{words}: commits wait for no standby", step, **facts)
    if told.is_synchronous and told.num_synchronous == 0:
        step = "connect a standby that is named, or the next charge waits for one for ever"
        return attention(f"{words}: none of those named is there", step, **facts)
    return well(words, **facts)
