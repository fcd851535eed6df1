"""The credentials file that a steward hands over."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from cryptography import x509
from pydantic import BaseModel, Field, TypeAdapter, model_validator

from analyst.documents import STRICT, DocumentProblem, parsed, read_bounded
from analyst.errors import CredentialsError

_REMEDY = "Ask the steward for the file that 'curator analyst add' wrote."


class _File(BaseModel):
    """What the file holds."""

    model_config = STRICT

    version: Literal[1]
    analyst: Annotated[str, Field(min_length=1)]
    token: str | None = None
    client_certificate: str = ""
    client_key: str = ""
    certificate_authority: str
    certificate_key: str

    @model_validator(mode="after")
    def _has_proof(self) -> Self:
        if self.token is None and not (self.client_certificate and self.client_key):
            msg = "token, or client_certificate and client_key: is missing"
            raise ValueError(msg)
        return self


_FILE = TypeAdapter(_File)


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

    Raises:
        CredentialsError: If it is missing, not a credentials file, or its certificate has ended.
    """
    try:
        content = parsed(_FILE, read_bounded(path))
        client = None
        if content.token is None:
            client = ClientCertificate(content.client_certificate, content.client_key)
            client.ends()
        credentials = Credentials(
            analyst=content.analyst,
            token=content.token,
            client=client,
            certificate_authority=content.certificate_authority,
            certificate_key=base64.b64decode(content.certificate_key, validate=True),
        )
    except FileNotFoundError:
        msg = f"There is no credentials file {path}."
        raise CredentialsError(msg, _REMEDY) from None
    except DocumentProblem as problem:
        msg = f"{path} is not a credentials file that can be read: {problem}."
        raise CredentialsError(msg, _REMEDY) from None
    except ValueError:  # of a certificate or a key, which is not repeated
        msg = f"{path} is not a credentials file that can be read: a key in it is damaged."
        raise CredentialsError(msg, _REMEDY) from None
    if client is not None and client.ends() <= datetime.now(UTC):
        msg = f"The client certificate in {path} has ended."
        raise CredentialsError(msg, "Ask the steward to run 'curator analyst rotate'.")
    return credentials
