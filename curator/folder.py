"""The curator's folder: where its files are, and how it is made."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from curator.clock import utc_now
from curator.config import TEMPLATE, CuratorConfig, load_config
from curator.identity.access_log import AccessLog
from curator.identity.certificates import (
    ClientCertificate,
    SigningKey,
    create_certificates,
    issue_client_certificate,
)
from curator.identity.credentials import CREDENTIALS_ENDING, credentials_file
from curator.identity.listen import TlsFiles
from curator.identity.tokens import TokenTable
from curator.service.caller import Role
from curator.system.new_file import CONFIG_NAME, check_new_folder, new_file, write_private

STEWARD = "steward"
PARTS = ("analysts", CONFIG_NAME, "datasets", "identity", "ledger*")
"""Patterns of what `initialise` makes in a folder."""


class NotInitialised(RuntimeError):
    """The folder is not a curator's."""


@dataclass(frozen=True, slots=True)
class CuratorFolder:
    """Paths below one folder."""

    root: Path

    @property
    def config(self) -> Path:
        """The steward's configuration."""
        return self.root / CONFIG_NAME

    @property
    def ledger(self) -> Path:
        """The ledger's database."""
        return self.root / "ledger.sqlite"

    def head_file(self, config: CuratorConfig) -> Path:
        """Return the file that keeps the ledger's head outside the database.

        Args:
            config: May put it elsewhere.
        """
        return Path(config.ledger.head_file or self.root / "ledger-head.json")

    def own_places(self, config: CuratorConfig) -> tuple[Path, ...]:
        """Return the files and folders that no command may write an answer to.

        Args:
            config: May have put one elsewhere; links may too.
        """
        folders = (self.root, self.identity, self.states, self.networks, self.root / "datasets")
        return (*folders, self.root / "analysts", self.ledger, self.head_file(config))

    @property
    def checkpoint(self) -> Path:
        """What the last start of a curator verified of the ledger; it may be removed."""
        return self.root / "ledger-checkpoint"

    @property
    def socket(self) -> Path:
        """Where a serving curator takes administrative commands."""
        return self.root / "admin.sock"

    @property
    def identity(self) -> Path:
        """Keys, certificates and the table of callers."""
        return self.root / "identity"

    @property
    def steward_credentials(self) -> Path:
        """The steward's own; those of others are handed over and leave the folder."""
        return self.identity / f"{STEWARD}{CREDENTIALS_ENDING}"

    @property
    def fingerprint_key(self) -> Path:
        """The key of image hashes."""
        return self.identity / "fingerprint.key"

    @property
    def fingerprints(self) -> Path:
        """Keyed fingerprints that earlier versions kept of images with labels, by data set."""
        return self.identity / "fingerprints.json"

    def image_hashes(self, name: str) -> Path:
        """Return where keyed hashes of a data set's images are kept, also once it was erased."""
        return self.identity / "image-hashes" / name

    @property
    def tls(self) -> TlsFiles:
        """The server's certificate."""
        return TlsFiles(
            certificate=self.identity / "server.pem",
            key=self.identity / "server.key",
            authority=self.identity / "ca.pem",
        )

    @property
    def signing_key(self) -> SigningKey:
        """The key that signs privacy certificates."""
        return SigningKey(self.identity / "certificate.key")

    @property
    def tokens(self) -> TokenTable:
        """The table of callers; each change of it is a line of the access log."""
        return TokenTable(self.identity / "callers.json", note=self.access_log.append)

    @property
    def access_log(self) -> AccessLog:
        """Who was added, rotated and revoked, beside the table that replicas share."""
        return AccessLog(self.identity / "access-log.jsonl")

    def images(self, name: str) -> Path:
        """Return where a data set's images are stored."""
        return self.root / "datasets" / name

    @property
    def networks(self) -> Path:
        """Where public networks are."""
        return self.root / "networks"

    @property
    def states(self) -> Path:
        """Where the private states of open runs are kept."""
        return self.root / "states"

    @property
    def is_made(self) -> bool:
        """Whether it is a curator's folder, which may be served."""
        return self.config.exists() and self.tls.certificate.exists()

    def require(self) -> None:
        """Check that the folder was initialised.

        Raises:
            NotInitialised: If it was not.
        """
        if not self.is_made:
            made = shlex.join(["curator", "init", str(self.root)])
            msg = f"{self.root} is not a curator's folder: first run: {made}"
            raise NotInitialised(msg)

    def add_analyst(
        self,
        name: str,
        out: Path | None = None,
        expires_at: datetime | None = None,
        *,
        role: Role = Role.ANALYST,
        certificate: bool = False,
        force: bool = False,
    ) -> Path:
        """Add a caller and write the credentials file to hand over.

        Args:
            name: Of the caller.
            out: Where to write; by default NAME.credentials.json in the folder's `analysts`.
            expires_at: When the credentials end; None for never, or in a year for a certificate.
            role: What the caller may do.
            certificate: Hand over a client certificate instead of a token.
            force: Whether a file that exists at `out` is replaced.
        """
        table, place = self.tokens, out or self._credentials(name)
        table.check_new(name)
        with self._handing_over(name, place, force=force or out is None) as write:
            if certificate:
                issued = issue_client_certificate(self.identity, name, expires_at)
                write(issued)
                table.add_certificate(name, role, issued.der, issued.expires_at)
            else:
                table.add(name, role, expires_at, write)
        return place

    def rotate_analyst(
        self,
        name: str,
        out: Path | None = None,
        expires_at: datetime | None = None,
        *,
        certificate: bool = False,
        force: bool = False,
    ) -> Path:
        """Replace a caller's credentials; the old ones end at once, the role stays.

        Args:
            name: An existing caller.
            out: Where to write, as for `add_analyst`.
            expires_at: When the new credentials end, as for `add_analyst`.
            certificate: Hand over a client certificate instead of a token.
            force: Whether a file that exists at `out` is replaced.
        """
        table, place = self.tokens, out or self._credentials(name)
        table.check_known(name)
        with self._handing_over(name, place, force=force or out is None) as write:
            if certificate:
                issued = issue_client_certificate(self.identity, name, expires_at)
                write(issued)
                table.rotate_certificate(name, issued.der, issued.expires_at)
            else:
                table.rotate(name, expires_at, write)
        return place

    def _credentials(self, name: str) -> Path:
        return self.root / "analysts" / f"{name}{CREDENTIALS_ENDING}"

    @contextmanager
    def _handing_over(
        self, name: str, path: Path, *, force: bool
    ) -> Iterator[Callable[[str | ClientCertificate], None]]:
        """Give what writes the credentials; they get their name once the caller is known."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with new_file(path, replace=force) as partial:

            def write(secret: str | ClientCertificate) -> None:
                content = credentials_file(
                    analyst=name,
                    secret=secret,
                    authority=self.identity / "ca.pem",
                    certificate_key=self.signing_key.public_key(),
                )
                partial.write_bytes(content)

            yield write


def initialise(root: Path) -> CuratorFolder:
    """Make a curator's folder; safe to run again, nothing that exists is changed."""
    check_new_folder(root)
    folder = CuratorFolder(root)
    for path in (root, folder.identity, root / "datasets", root / "analysts"):
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not folder.config.exists():
        write_private(folder.config, TEMPLATE.encode())
    config = load_config(folder.config)
    create_certificates(folder.identity, config.identity.host_names)
    if not folder.fingerprint_key.exists():
        write_private(folder.fingerprint_key, secrets.token_bytes(32))
    steward = folder.steward_credentials
    if not steward.exists():
        folder.add_analyst(STEWARD, steward, role=Role.STEWARD)
    if not config.database and not folder.ledger.exists():
        from curator.ledger.anchor import HeadAnchor  # here: SQLAlchemy is slow to import
        from curator.ledger.sql_ledger import SqlLedger

        anchor = HeadAnchor(folder.head_file(config))  # a ledger that was deleted is missed
        SqlLedger.open_writer(folder.ledger, utc_now, anchor).close()
    return folder
