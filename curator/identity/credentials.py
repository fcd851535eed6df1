"""The one file that a steward hands to an analyst: name, token and the authority to trust."""

from __future__ import annotations

import json
from pathlib import Path

from curator.identity.certificates import write_private


def write_credentials(path: Path, *, analyst: str, token: str, authority: Path) -> None:
    """Write a credentials file, readable by the owner only.

    Args:
        path: Where to.
        analyst: Name of the analyst.
        token: Bearer token.
        authority: PEM file of the certificate authority that signed the server's certificate.
    """
    content = {
        "version": 1,
        "analyst": analyst,
        "token": token,
        "certificate_authority": authority.read_text(),
    }
    write_private(path, json.dumps(content, indent=1).encode() + b"\n")
