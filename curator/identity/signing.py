"""The curator's Ed25519 key, which signs privacy certificates."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from curator.system.new_file import write_private


@final
class SigningKey:
    """A key in a file that only the owner can read; made at first use."""

    def __init__(self, path: Path) -> None:
        """Read the key, or make it."""
        if not path.exists():
            raw = Ed25519PrivateKey.generate().private_bytes_raw()
            write_private(path, raw)
        self._key = Ed25519PrivateKey.from_private_bytes(path.read_bytes())

    def sign(self, message: bytes) -> bytes:
        """Return a signature."""
        return self._key.sign(message)

    def public_key(self) -> bytes:
        """Return the raw 32 bytes to check signatures with."""
        return self._key.public_key().public_bytes(
            serialization.Encoding.Raw, serialization.PublicFormat.Raw
        )


def fingerprint_of(public_key: bytes) -> str:
    """Return how people compare a key: SHA256 and 64 hexadecimal digits.

    Args:
        public_key: The raw 32 bytes.
    """
    return f"SHA256:{hashlib.sha256(public_key).hexdigest()}"
