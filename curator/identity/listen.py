"""Where a server listens, and with which certificate; shared by the two shells."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class PortUnavailable(RuntimeError):
    """The port cannot be bound."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsFiles:
    """The server's certificate and key, as PEM files."""

    certificate: Path
    key: Path
