"""Who is asking: the client certificate of the connection, or the bearer token of the call."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self, final

import grpc

from curator.identity.tokens import TokenTable
from curator.service.caller import Caller


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a call came with; nothing is believed yet."""

    authorization: str | None
    certificate: bytes | None  # DER, verified by TLS against the curator's own authority

    @classmethod
    def of(cls, metadata: Mapping[str, str | bytes], context: grpc.ServicerContext) -> Self:
        """Return the credentials of one call.

        Args:
            metadata: Of the call.
            context: Of the call; only here is the connection's peer known.
        """
        value = metadata.get("authorization")
        found = context.auth_context().get("x509_pem_cert")
        return cls(
            authorization=value if isinstance(value, str) else None,
            certificate=ssl.PEM_cert_to_DER_cert(bytes(found[0]).decode()) if found else None,
        )


class Authenticator(Protocol):
    """Turns credentials into a caller."""

    def caller(self, credentials: Credentials) -> Caller:
        """Return who asks, or raise `Unauthenticated`."""
        ...


@final
class KnownCallers:
    """Authenticates by the table of callers."""

    def __init__(self, table: TokenTable) -> None:
        """Take the table."""
        self._table = table

    def caller(self, credentials: Credentials) -> Caller:
        """Return whose credentials these are; on a connection with a certificate, it decides.

        Raises:
            Unauthenticated: If they are missing, unknown, or no longer valid.
        """
        return self._table.identify(credentials.authorization, credentials.certificate)
