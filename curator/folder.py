"""The curator's folder: where its files are, and how it is made."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from curator.clock import utc_now
from curator.config import TEMPLATE, load_config
from curator.identity.certificates import create_certificates, write_private
from curator.identity.credentials import write_credentials
from curator.identity.listen import TlsFiles
from curator.identity.signing import SigningKey
from curator.identity.tokens import TokenTable
from curator.ledger.sql import SqlLedger
from curator.service.caller import Role

STEWARD = "steward"


class NotInitialised(RuntimeError):
    """The folder is not a curator's."""


@dataclass(frozen=True, slots=True)
class CuratorFolder:
    """Paths below one folder."""

    root: Path

    @property
    def config(self) -> Path:
        """The steward's configuration."""
        return self.root / "curator.toml"

    @property
    def ledger(self) -> Path:
        """The ledger's database."""
        return self.root / "ledger.sqlite"

    @property
    def identity(self) -> Path:
        """Keys, certificates and the table of callers."""
        return self.root / "identity"

    @property
    def fingerprint_key(self) -> Path:
        """The key of content fingerprints."""
        return self.identity / "fingerprint.key"

    @property
    def fingerprints(self) -> Path:
        """Keyed fingerprints of known content, by data set."""
        return self.identity / "fingerprints.json"

    @property
    def tls(self) -> TlsFiles:
        """The server's certificate."""
        return TlsFiles(certificate=self.identity / "server.pem", key=self.identity / "server.key")

    @property
    def signing_key(self) -> SigningKey:
        """The key that signs privacy certificates."""
        return SigningKey(self.identity / "certificate.key")

    @property
    def tokens(self) -> TokenTable:
        """The table of callers."""
        return TokenTable(self.identity / "callers.json")

    def images(self, name: str) -> Path:
        """Return where a data set's images are stored.

        Args:
            name: The data set.
        """
        return self.root / "datasets" / name

    def require(self) -> None:
        """Check that the folder was initialised.

        Raises:
            NotInitialised: If it was not.
        """
        if not self.ledger.exists() or not self.tls.certificate.exists():
            msg = f"{self.root} is not a curator's folder: run 'curator init {self.root}' first"
            raise NotInitialised(msg)

    def add_analyst(
        self, name: str, out: Path | None = None, expires_at: datetime | None = None
    ) -> Path:
        """Add an analyst and write the credentials file to hand over.

        Args:
            name: Of the analyst.
            out: Where to write; by default NAME.credentials.json in the folder's `analysts`.
            expires_at: When the credentials end; None for never.

        Returns:
            The credentials file.
        """
        path = out or self.root / "analysts" / f"{name}.credentials.json"
        self.add_caller(name, Role.ANALYST, path, expires_at)
        return path

    def rotate_analyst(
        self, name: str, out: Path | None = None, expires_at: datetime | None = None
    ) -> Path:
        """Replace a caller's credentials; the old ones end at once.

        Args:
            name: An existing caller.
            out: Where to write, as for `add_analyst`.
            expires_at: When the new credentials end; None for never.

        Returns:
            The new credentials file.
        """
        path = out or self.root / "analysts" / f"{name}.credentials.json"
        self._write_credentials(name, self.tokens.rotate(name, expires_at), path)
        return path

    def add_caller(
        self, name: str, role: Role, path: Path, expires_at: datetime | None = None
    ) -> None:
        """Add a caller and write the credentials file.

        Args:
            name: Of the caller.
            role: What the caller may do.
            path: Where to write.
            expires_at: When the token ends; None for never.
        """
        self._write_credentials(name, self.tokens.add(name, role, expires_at), path)

    def _write_credentials(self, name: str, token: str, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_credentials(
            path,
            analyst=name,
            token=token,
            authority=self.identity / "ca.pem",
            certificate_key=self.signing_key.public_key(),
        )


def initialise(root: Path) -> CuratorFolder:
    """Make a curator's folder; safe to run again, nothing that exists is changed.

    Args:
        root: The folder.

    Returns:
        Its paths.
    """
    folder = CuratorFolder(root)
    for path in (root, folder.identity, root / "datasets", root / "analysts"):
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not folder.config.exists():
        write_private(folder.config, TEMPLATE.encode())
    config = load_config(folder.config)
    create_certificates(folder.identity, config.identity.host_names)
    if not folder.fingerprint_key.exists():
        write_private(folder.fingerprint_key, secrets.token_bytes(32))
    steward = folder.identity / "steward.credentials.json"
    if not steward.exists():
        folder.add_caller(STEWARD, Role.STEWARD, steward)
    if not folder.ledger.exists():
        SqlLedger.open_writer(folder.ledger, utc_now).close()
    return folder
