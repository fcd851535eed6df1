"""The credentials file that a steward hands over."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from analyst.errors import CredentialsError

_REMEDY = "Ask the steward for the file that 'curator analyst add' wrote."


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """Who the analyst is, and which certificate authority to trust."""

    analyst: str
    token: str | None = field(repr=False)
    client: ClientCertificate | None = field(repr=False)
    certificate_authority: str = field(repr=False)
    certificate_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What an analyst without a token proves itself with, as PEM."""

    certificate: str
    key: str = field(repr=False)

    def ends(self) -> datetime:
        """Return when the certificate ends; one that cannot be read is a `ValueError`."""
        return x509.load_pem_x509_certificate(self.certificate.encode()).not_valid_after_utc


def load_credentials(path: Path) -> Credentials:
    """Read a credentials file.

    Args:
        path: The file.

    Returns:
        The credentials.

    Raises:
        CredentialsError: If it is missing, not a credentials file, or its certificate has ended.
    """
    try:
        content = json.loads(path.read_bytes())
        token, client = content.get("token"), None
        if token is None:
            client = ClientCertificate(content["client_certificate"], content["client_key"])
            client.ends()
        credentials = Credentials(
            analyst=content["analyst"],
            token=token,
            client=client,
            certificate_authority=content["certificate_authority"],
            certificate_key=base64.b64decode(content["certificate_key"], validate=True),
        )
    except FileNotFoundError:
        msg = f"There is no credentials file {path}."
        raise CredentialsError(msg, _REMEDY) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        msg = f"{path} is not a credentials file that can be read."
        raise CredentialsError(msg, _REMEDY) from None
    if client is not None and client.ends() <= datetime.now(UTC):
        msg = f"The client certificate in {path} has ended."
        raise CredentialsError(msg, "Ask the steward to run 'curator analyst rotate'.")
    return credentials
