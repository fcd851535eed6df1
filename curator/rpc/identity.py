"""Who calls, by token or certificate, and which methods a role may call.

A test walks the service descriptor and keeps the table total.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, Self, final

import grpc

from curator.errors import NotPermitted
from curator.identity.tokens import Offered, TokenTable, proof_of
from curator.service.caller import Caller, Role


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a call came with; nothing is believed yet."""

    proof: Offered | None  # of a client certificate if TLS has verified one, else of a token

    @classmethod
    def of(cls, metadata: Mapping[str, str | bytes], context: grpc.ServicerContext) -> Self:
        """Return the credentials of one call.

        Args:
            metadata: Of the call.
            context: Of the call; only here is the connection's peer known.
        """
        value = metadata.get("authorization")
        found = context.auth_context().get("x509_pem_cert")
        certificate = ssl.PEM_cert_to_DER_cert(bytes(found[0]).decode()) if found else None
        return cls(proof_of(value if isinstance(value, str) else None, certificate))


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
        return self._table.known(credentials.proof)


_ANALYST, _STEWARD = Role.ANALYST, Role.STEWARD
_EVERY_ROLE = frozenset(Role)

OPEN_METHODS: Final = frozenset({"/grpc.health.v1.Health/Check"})
"""Answered to strangers too: they say nothing that a port scan does not."""

PERMISSIONS: Final[dict[str, frozenset[Role]]] = {
    "/weir.v1.WeirService/ListDatasets": _EVERY_ROLE,
    "/weir.v1.WeirService/DescribeDataset": _EVERY_ROLE,
    "/weir.v1.WeirService/GetBudget": _EVERY_ROLE,
    "/weir.v1.WeirService/PlanRun": frozenset({_ANALYST, _STEWARD}),
    "/weir.v1.WeirService/OpenRun": frozenset({_ANALYST}),
    "/weir.v1.WeirService/ListRuns": _EVERY_ROLE,  # an analyst's own
    "/weir.v1.WeirService/ResumeRun": _EVERY_ROLE,  # adopts a run for its owner only
    "/weir.v1.WeirService/Step": frozenset({_ANALYST}),
    "/weir.v1.WeirService/StreamSteps": frozenset({_ANALYST}),
    "/weir.v1.WeirService/CloseRun": frozenset({_ANALYST, _STEWARD}),
    "/weir.v1.WeirService/DownloadRelease": frozenset({_ANALYST}),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": _EVERY_ROLE,
}


def require_permission(method: str, role: Role) -> None:
    """Check that a role may call a method, whether or not there is such a method.

    Raises:
        NotPermitted: If it may not; the words never say why.
    """
    if role not in PERMISSIONS.get(method, frozenset()):
        raise NotPermitted
