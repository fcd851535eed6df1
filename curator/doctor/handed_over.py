"""Credentials that were made for somebody else and still lie in the curator's folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from curator.doctor.finding import Finding, attention, well
from curator.doctor.subject import Subject
from curator.folder import CuratorFolder
from curator.identity.credentials import CREDENTIALS_ENDING

_MOST_NAMED: Final = 5


def handed_over(subject: Subject) -> Finding:
    """Look for credentials of others, by name; none is read."""
    if subject.folder is None:
        return well("no folder is named")
    found = sorted(str(path) for path in _left(subject.folder))
    if not found:
        return well("no credentials of others lie in the folder", left=found)
    more = len(found) - _MOST_NAMED
    names = ", ".join(found[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return attention(
        f"credentials that were made for others still lie here: {names}",
        "hand over what is still wanted on a safe channel, then remove them here, also those of a "
        "revoked analyst: who has a copy of the folder, or of its backup, can ask in their name "
        "until they are revoked; a lost one is replaced by 'curator analyst rotate'",
        left=found,
    )


def _left(folder: CuratorFolder) -> Iterator[Path]:
    """Yield what is named as credentials, the steward's own apart, in each folder of secrets."""
    own = folder.steward_credentials
    for place in (folder.root, folder.root / "analysts", folder.identity):
        try:
            yield from (p for p in place.glob(f"*{CREDENTIALS_ENDING}") if p != own)
        except OSError:  # not there, or of another user; the check of permissions says so
            continue
