"""Bearer tokens: 256 random bits each, kept as a hash, looked up in constant time.

The table of callers is one JSON file. It is read again when it changes, so an analyst that is
added, rotated or revoked while the curator serves is so at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import final

from curator.clock import utc_now
from curator.errors import Unauthenticated
from curator.identity.certificates import write_private
from curator.service.caller import Caller, Role

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SCHEME = "Bearer "


class CallerExists(ValueError):
    """A caller of this name has credentials already."""


class NoSuchCaller(ValueError):
    """There is no caller of this name."""


Entry = dict[str, str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedCaller:
    """A caller as the steward sees it."""

    name: str
    role: Role
    revoked: bool
    expires_at: datetime | None


@final
class TokenTable:
    """Names, roles and token hashes, in one file."""

    def __init__(self, path: Path, clock: Callable[[], datetime] = utc_now) -> None:
        """Use the table at `path`; a missing file is an empty table.

        Args:
            path: The JSON file.
            clock: The present in UTC.
        """
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._callers: dict[str, ListedCaller] = {}

    def add(self, name: str, role: Role, expires_at: datetime | None = None) -> str:
        """Add a caller.

        Args:
            name: Lower-case letters, digits, dots, dashes and underscores.
            role: What the caller may do.
            expires_at: When the token ends, in UTC; None for never.

        Returns:
            The token; it is not kept and cannot be shown again.

        Raises:
            ValueError: If the name is not valid.
            CallerExists: If there is or was a caller of this name: its runs are in the ledger.
        """
        if not _NAME.fullmatch(name):
            msg = "a name has 1 to 64 lower-case letters, digits, dots, dashes and underscores"
            raise ValueError(msg)
        with self._changing() as table:
            if any(entry["name"] == name for entry in table):
                msg = f"'{name}' has credentials already; choose another name, or rotate them"
                raise CallerExists(msg)
            token, entry = _new_entry(name, role, expires_at)
            table.append(entry)
        return token

    def rotate(self, name: str, expires_at: datetime | None = None) -> str:
        """Give a caller a new token; the old one ends at once, also while the curator serves.

        Args:
            name: An existing caller, also a revoked one.
            expires_at: When the new token ends; None for never.

        Returns:
            The new token.

        Raises:
            NoSuchCaller: If there is none.
        """
        with self._changing() as table:
            place = _place(table, name)
            token, table[place] = _new_entry(name, Role(str(table[place]["role"])), expires_at)
        return token

    def revoke(self, name: str) -> None:
        """End a caller's token at once; the name and its runs stay.

        Args:
            name: An existing caller.

        Raises:
            NoSuchCaller: If there is none.
        """
        with self._changing() as table:
            table[_place(table, name)]["token_sha256"] = None

    def callers(self) -> tuple[ListedCaller, ...]:
        """Return every caller in the order of adding."""
        return tuple(
            ListedCaller(
                name=str(entry["name"]),
                role=Role(str(entry["role"])),
                revoked=entry["token_sha256"] is None,
                expires_at=_expiry(entry),
            )
            for entry in self._read()
        )

    def authenticate(self, authorization: str | None) -> Caller:
        """Return whose token it is.

        Args:
            authorization: The value of the authorization header.

        Returns:
            The caller.

        Raises:
            Unauthenticated: If there is no such token, or it has ended; the words never say why.
        """
        if authorization is None or not authorization.startswith(_SCHEME):
            raise Unauthenticated
        offered = _hash(authorization.removeprefix(_SCHEME))
        found = None
        for known, entry in self._current().items():
            if hmac.compare_digest(known, offered):
                found = entry
        if found is None or (found.expires_at is not None and self._clock() >= found.expires_at):
            raise Unauthenticated
        return Caller(found.name, found.role)

    @contextmanager
    def _changing(self) -> Iterator[list[Entry]]:
        """Give the table to change, and write it whole; two commands never lose one another."""
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            table = self._read()
            yield table
            write_private(self._path, json.dumps(table, indent=1).encode())

    def _current(self) -> dict[str, ListedCaller]:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return {}
        stamp = (status.st_mtime_ns, status.st_ino)
        with self._lock:
            if stamp != self._stamp:
                listed = zip(self._read(), self.callers(), strict=True)
                self._callers = {
                    str(entry["token_sha256"]): caller
                    for entry, caller in listed
                    if not caller.revoked
                }
                self._stamp = stamp
            return self._callers

    def _read(self) -> list[Entry]:
        try:
            table: list[Entry] = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return []
        return table


def _new_entry(name: str, role: Role, expires_at: datetime | None) -> tuple[str, Entry]:
    token = secrets.token_urlsafe(32)
    ends = None if expires_at is None else expires_at.isoformat()
    entry: Entry = {"name": name, "role": str(role), "token_sha256": _hash(token)}
    return token, entry | {"expires_at": ends}


def _place(table: list[Entry], name: str) -> int:
    """Return where a caller is.

    Raises:
        NoSuchCaller: If there is none.
    """
    for place, entry in enumerate(table):
        if entry["name"] == name:
            return place
    msg = f"there is no caller '{name}'; 'curator analyst list' shows them"
    raise NoSuchCaller(msg)


def _expiry(entry: Entry) -> datetime | None:
    ends = entry.get("expires_at")
    return None if ends is None else datetime.fromisoformat(ends)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
