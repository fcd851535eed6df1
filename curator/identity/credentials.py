"""The one file that a steward hands over: a name, what proves it, and whom to trust."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Final

from curator.identity.certificates import ClientCertificate

CREDENTIALS_ENDING: Final = ".credentials.json"


def credentials_file(
    *,
    analyst: str,
    secret: str | ClientCertificate,
    authority: Path,
    certificate_key: bytes,
) -> bytes:
    """Return what a credentials file holds.

    Args:
        analyst: Name of the analyst.
        secret: A bearer token, or a client certificate with its key.
        authority: PEM file of the certificate authority that signed the server's certificate.
        certificate_key: Raw Ed25519 key that privacy certificates are checked with.
    """
    proof = (
        {"token": secret}
        if isinstance(secret, str)
        else {"client_certificate": secret.certificate, "client_key": secret.key}
    )
    content = {
        "version": 1,
        "analyst": analyst,
        **proof,
        "certificate_authority": authority.read_text(),
        "certificate_key": base64.b64encode(certificate_key).decode(),
    }
    return json.dumps(content, indent=1).encode() + b"\n"
