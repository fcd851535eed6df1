"""Who is asking: the bearer token in the call's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, final

from curator.identity.tokens import TokenTable
from curator.service.caller import Caller


class Authenticator(Protocol):
    """Turns a call's metadata into a caller."""

    def caller(self, metadata: Mapping[str, str | bytes]) -> Caller:
        """Return who asks, or raise `Unauthenticated`."""
        ...


@final
class BearerTokens:
    """Authenticates by the token table."""

    def __init__(self, tokens: TokenTable) -> None:
        """Take the table."""
        self._tokens = tokens

    def caller(self, metadata: Mapping[str, str | bytes]) -> Caller:
        """Return whose token it is.

        Args:
            metadata: Of the call.

        Returns:
            The caller.

        Raises:
            Unauthenticated: If there is no valid token.
        """
        value = metadata.get("authorization")
        return self._tokens.authenticate(value if isinstance(value, str) else None)
