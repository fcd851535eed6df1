"""A chain of SHA-256 digests over canonical JSON: an entry cannot change without all later ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as _text
from typing import Final, NamedTuple

_ENCODER: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

GENESIS: Final = hashlib.sha256(b"weir ledger, version 1").hexdigest()
"""What the first entry names as its previous digest."""


def canonical_json(value: Mapping[str, object]) -> str:
    """Return the one text of `value`: sorted keys, no spaces, ASCII, no NaN or infinity.

    Raises:
        ValueError: If a number is not finite.
    """
    return _ENCODER.encode(value)


class Entry(NamedTuple):
    """One line of the ledger; `body` is canonical JSON and `digest` covers everything else."""

    seq: int
    at: str
    kind: str
    body: str
    previous: str
    digest: str

    @classmethod
    def following(cls, head: tuple[int, str], at: str, kind: str, body: str) -> Entry:
        """Return the entry that comes after `head`, sealed."""
        seq, previous = head[0] + 1, head[1]
        digest = _digest(seq, at, kind, body, previous)
        return cls(seq=seq, at=at, kind=kind, body=body, previous=previous, digest=digest)

    def follows(self, head: tuple[int, str]) -> bool:
        """Whether this entry is unchanged and comes right after `head`."""
        expected = _digest(self.seq, self.at, self.kind, self.body, self.previous)
        in_place = self.seq == head[0] + 1 and self.previous == head[1]
        return in_place and self.digest == expected


def _digest(seq: int, at: str, kind: str, body: str, previous: str) -> str:
    """Return the digest of the entry's canonical JSON, which is written out for speed."""
    texts = (_text(part) for part in (at, body, kind, previous))
    text = '{{"at":{},"body":{},"kind":{},"previous":{},"seq":{:d}}}'.format(*texts, seq)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
