"""Bearer tokens: 256 random bits each, kept as a hash, looked up in constant time.

The table of callers is one JSON file. It is read again when it changes, so an analyst that is
added while the curator serves is known at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import re
import secrets
import threading
from pathlib import Path
from typing import final

from curator.errors import Unauthenticated
from curator.identity.certificates import write_private
from curator.service.caller import Caller, Role

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SCHEME = "Bearer "


class CallerExists(ValueError):
    """A caller of this name has credentials already."""


@final
class TokenTable:
    """Names, roles and token hashes, in one file."""

    def __init__(self, path: Path) -> None:
        """Use the table at `path`; a missing file is an empty table."""
        self._path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._callers: dict[str, Caller] = {}

    def add(self, name: str, role: Role) -> str:
        """Add a caller.

        Args:
            name: Lower-case letters, digits, dots, dashes and underscores.
            role: What the caller may do.

        Returns:
            The token; it is not kept and cannot be shown again.

        Raises:
            ValueError: If the name is not valid.
            CallerExists: If there is a caller of this name.
        """
        if not _NAME.fullmatch(name):
            msg = "a name has 1 to 64 lower-case letters, digits, dots, dashes and underscores"
            raise ValueError(msg)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two commands at once must not lose one another
            table = self._read()
            if any(entry["name"] == name for entry in table):
                msg = f"'{name}' has credentials already; choose another name"
                raise CallerExists(msg)
            token = secrets.token_urlsafe(32)
            table.append({"name": name, "role": str(role), "token_sha256": _hash(token)})
            write_private(self._path, json.dumps(table, indent=1).encode())
        return token

    def authenticate(self, authorization: str | None) -> Caller:
        """Return whose token it is.

        Args:
            authorization: The value of the authorization header.

        Returns:
            The caller.

        Raises:
            Unauthenticated: If there is no such token; the words never say why.
        """
        if authorization is None or not authorization.startswith(_SCHEME):
            raise Unauthenticated
        offered = _hash(authorization.removeprefix(_SCHEME))
        found = None
        for known, caller in self._current().items():
            if hmac.compare_digest(known, offered):
                found = caller
        if found is None:
            raise Unauthenticated
        return found

    def _current(self) -> dict[str, Caller]:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return {}
        stamp = (status.st_mtime_ns, status.st_ino)
        with self._lock:
            if stamp != self._stamp:
                self._callers = {
                    entry["token_sha256"]: Caller(entry["name"], Role(entry["role"]))
                    for entry in self._read()
                }
                self._stamp = stamp
            return self._callers

    def _read(self) -> list[dict[str, str]]:
        try:
            table: list[dict[str, str]] = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return []
        return table


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
