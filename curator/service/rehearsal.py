"""Rehearsals: public data without a limit, never beside private data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from curator.ledger.problems import LedgerConflict
from curator.privacy.facts import is_rehearsal

BANNER: Final = (
    "*** REHEARSAL *** public data, no limit, no promise: for debugging only *** REHEARSAL ***"
)
WORDS: Final = (
    "A REHEARSAL on public data without a limit. It certifies nothing about anyone's privacy and "
    "must not be shown as if it did."
)


def check_not_mixed(names: Iterable[str]) -> None:
    """Check that one ledger holds rehearsals only, or none.

    Raises:
        LedgerConflict: If there are both kinds.
    """
    kinds = {is_rehearsal(name) for name in names}
    if len(kinds) > 1:
        msg = (
            "a rehearsal and private data never share a curator: rehearse in a folder of its own "
            "('curator rehearse --dir')"
        )
        raise LedgerConflict(msg)
