"""The one file that a steward hands to an analyst: name, token and the authority to trust."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from curator.identity.certificates import write_private


def write_credentials(
    path: Path, *, analyst: str, token: str, authority: Path, certificate_key: bytes
) -> None:
    """Write a credentials file, readable by the owner only.

    Args:
        path: Where to.
        analyst: Name of the analyst.
        token: Bearer token.
        authority: PEM file of the certificate authority that signed the server's certificate.
        certificate_key: Raw Ed25519 key that privacy certificates are checked with.
    """
    content = {
        "version": 1,
        "analyst": analyst,
        "token": token,
        "certificate_authority": authority.read_text(),
        "certificate_key": base64.b64encode(certificate_key).decode(),
    }
    write_private(path, json.dumps(content, indent=1).encode() + b"\n")
