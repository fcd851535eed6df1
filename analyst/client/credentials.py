"""The credentials file that a steward hands over."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path

from analyst.errors import CredentialsError

_REMEDY = "Ask the steward for the file that 'curator analyst add' wrote."


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """Who the analyst is, and which certificate authority to trust."""

    analyst: str
    token: str = field(repr=False)
    certificate_authority: str = field(repr=False)
    certificate_key: bytes = field(repr=False)


def load_credentials(path: Path) -> Credentials:
    """Read a credentials file.

    Args:
        path: The file.

    Returns:
        The credentials.

    Raises:
        CredentialsError: If it is missing or not a credentials file.
    """
    try:
        content = json.loads(path.read_bytes())
        return Credentials(
            analyst=content["analyst"],
            token=content["token"],
            certificate_authority=content["certificate_authority"],
            certificate_key=base64.b64decode(content["certificate_key"], validate=True),
        )
    except FileNotFoundError:
        msg = f"There is no credentials file {path}."
        raise CredentialsError(msg, _REMEDY) from None
    except (OSError, ValueError, KeyError, TypeError):
        msg = f"{path} is not a credentials file that can be read."
        raise CredentialsError(msg, _REMEDY) from None
