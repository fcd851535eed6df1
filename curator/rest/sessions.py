"""Sessions of browsers: kept hashed in memory, for an hour, and only as long as the token holds.

A session stands for the token that began it and for nothing else: it is checked against the table
of callers at every request, so revoking or rotating the token ends it at once.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from curator.errors import Unauthenticated
from curator.identity.tokens import TokenTable, token_digest
from curator.service.caller import Caller

SECONDS: Final = 3600
MOST_OF_ONE_CALLER: Final = 8


@dataclass(frozen=True, slots=True)
class _Session:
    caller: str
    digest: str
    ends_at: float  # monotonic seconds


@final
class Sessions:
    """The open sessions; a restart ends all of them."""

    def __init__(self, tokens: TokenTable, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Start with none.

        Args:
            tokens: Who may begin one, and whose still holds.
            monotonic: A clock that never goes back.
        """
        self._tokens = tokens
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._sessions: dict[str, _Session] = {}

    def begin(self, token: str) -> str:
        """Begin a session; a caller's oldest one ends when there are too many.

        Args:
            token: Of a known caller; anything else is `Unauthenticated`.

        Returns:
            The secret of the session; only its hash is kept.
        """
        digest = token_digest(token)
        caller = self._tokens.recognise(digest)
        secret = secrets.token_urlsafe(32)
        now = self._monotonic()
        with self._lock:
            self._drop_ended(now)
            own = [key for key, session in self._sessions.items() if session.caller == caller.name]
            for key in own[: max(0, len(own) - MOST_OF_ONE_CALLER + 1)]:
                del self._sessions[key]
            self._sessions[_key(secret)] = _Session(caller.name, digest, now + SECONDS)
        return secret

    def caller(self, secret: str) -> Caller:
        """Return whose session it is.

        Raises:
            Unauthenticated: If there is no such session, or it or its token has ended.
        """
        with self._lock:
            self._drop_ended(self._monotonic())
            session = self._sessions.get(_key(secret))
        if session is None:
            raise Unauthenticated
        try:
            return self._tokens.recognise(session.digest)
        except Unauthenticated:
            self.end(secret)
            raise

    def end(self, secret: str) -> None:
        """End a session, whether or not there is one."""
        with self._lock:
            self._sessions.pop(_key(secret), None)

    def _drop_ended(self, now: float) -> None:
        for key in [key for key, session in self._sessions.items() if session.ends_at <= now]:
            del self._sessions[key]


def _key(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
