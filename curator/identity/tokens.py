"""The table of callers: a token of 256 random bits or a client certificate each, kept as a hash.

An analyst that is added, rotated or revoked while the curator serves is so at once. Hashes are
looked up in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TypeAlias, final

from curator.clock import utc_now
from curator.errors import Unauthenticated
from curator.identity.access_log import no_log
from curator.identity.callers_file import (
    CallerExists,
    CallersFile,
    Entry,
    ListedCaller,
    Proof,
    listed,
    new_entry,
    place_of,
)
from curator.identity.last_good import LastGood
from curator.service.caller import Caller, Role

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SCHEME = "Bearer "

Offered: TypeAlias = tuple[Proof, str]
"""A kind of proof and the hash of it."""


def _nothing(*_: str) -> None:
    """Do nothing."""


@final
class TokenTable:
    """Names, roles and what proves them."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], datetime] = utc_now,
        note: Callable[..., None] = no_log,
    ) -> None:
        """Use the table at `path`; a missing file is an empty table.

        Args:
            path: The JSON file.
            clock: The present in UTC.
            note: Keeps a record of each change, before it is in force; `AccessLog.append`.
        """
        self._note = note
        self._file = CallersFile(path)
        self._clock = clock
        self._known_now = LastGood(self._file)

    def add(
        self,
        name: str,
        role: Role,
        expires_at: datetime | None = None,
        hand_over: Callable[[str], None] = _nothing,
    ) -> str:
        """Add a caller who proves itself with a token.

        Args:
            name: As for `add_certificate`.
            role: What the caller may do.
            expires_at: When the token ends, in UTC; None for never.
            hand_over: Given the token before it is known here: if it fails, nothing has changed.

        Returns:
            The token; it is not kept and cannot be shown again.
        """
        token = secrets.token_urlsafe(32)
        proof = (Proof.TOKEN, _hash(token.encode()))
        self._add(new_entry(name, role, proof, expires_at), lambda: hand_over(token))
        return token

    def add_certificate(
        self, name: str, role: Role, certificate: bytes, expires_at: datetime
    ) -> None:
        """Add a caller who proves itself with a client certificate.

        Args:
            name: Lower-case letters, digits, dots, dashes and underscores.
            role: What the caller may do.
            certificate: DER; its subject is the name.
            expires_at: When it ends.
        """
        self._add(new_entry(name, role, (Proof.CERTIFICATE, _hash(certificate)), expires_at))

    def check_new(self, name: str) -> None:
        """Check that a caller of this name can be added.

        Args:
            name: As for `add_certificate`.

        Raises:
            ValueError: If the name is not valid.
            CallerExists: If there is or was a caller of this name: its runs are in the ledger.
        """
        if not _NAME.fullmatch(name):
            msg = "a name has 1 to 64 lower-case letters, digits, dots, dashes and underscores"
            raise ValueError(msg)
        for entry in self._file.read():
            if entry["name"] == name:
                raise CallerExists(listed(entry))

    def check_known(self, name: str) -> None:
        """Check that there is or was a caller of this name.

        Args:
            name: Any; one that is not known is a `NoSuchCaller`.
        """
        place_of(self._file.read(), name)

    def rotate(
        self,
        name: str,
        expires_at: datetime | None = None,
        hand_over: Callable[[str], None] = _nothing,
    ) -> str:
        """Give a caller a new token; what it had ends at once, also while the curator serves.

        Args:
            name: An existing caller, also a revoked one.
            expires_at: When the new token ends; None for never.
            hand_over: As for `add`.
        """
        token = secrets.token_urlsafe(32)
        proof = (Proof.TOKEN, _hash(token.encode()))
        self._rotate(name, proof, expires_at, lambda: hand_over(token))
        return token

    def rotate_certificate(self, name: str, certificate: bytes, expires_at: datetime) -> None:
        """Give a caller a new certificate; what it had ends at once."""
        self._rotate(name, (Proof.CERTIFICATE, _hash(certificate)), expires_at)

    def revoke(self, name: str) -> bool:
        """End a caller's token or certificate at once; the name and its runs stay.

        Returns:
            Whether there was one to end; if not, nothing is recorded.
        """
        with self._file.changing() as table:
            place = place_of(table, name)
            if listed(table[place]).revoked:
                return False
            table[place] |= dict.fromkeys(Proof)
            self._note("revoke", name, role=table[place]["role"])
        return True

    def callers(self) -> tuple[ListedCaller, ...]:
        """Return every caller in the order of adding."""
        return tuple(listed(entry) for entry in self._file.read())

    def identify(self, authorization: str | None, certificate: bytes | None) -> Caller:
        """Return who asks; where TLS has verified a certificate, it alone decides."""
        return self.known(proof_of(authorization, certificate))

    def authenticate(self, authorization: str | None) -> Caller:
        """Return whose token it is.

        Raises:
            Unauthenticated: If there is no such token, or it has ended; the words never say why.
        """
        return self.known(proof_of(authorization, None))

    def recognise(self, digest: str) -> Caller:
        """Return whose token has a hash, for what was begun with it; it ends with the token.

        Args:
            digest: By `token_digest`.

        Returns:
            The caller; once the token has ended, it is `Unauthenticated` as for the token itself.
        """
        return self.known((Proof.TOKEN, digest))

    def known(self, offered: Offered | None) -> Caller:
        """Return whose proof it is.

        Args:
            offered: By `proof_of`.

        Raises:
            Unauthenticated: If it is none, nobody's, or has ended.
        """
        if offered is None:
            raise Unauthenticated
        found = None
        for (proof, digest), caller in self._known_now.proofs().items():
            if proof is offered[0] and hmac.compare_digest(digest, offered[1]):
                found = caller
        if found is None or (found.expires_at is not None and self._clock() >= found.expires_at):
            raise Unauthenticated
        return Caller(found.name, found.role)

    def _add(self, entry: Entry, before_it_is_known: Callable[[], None] = _nothing) -> None:
        with self._file.changing() as table:
            self.check_new(str(entry["name"]))
            table.append(entry)
            before_it_is_known()
            self._note("add", str(entry["name"]), **_noted(entry))

    def _rotate(
        self,
        name: str,
        proof: tuple[Proof, str],
        expires_at: datetime | None,
        before_it_is_known: Callable[[], None] = _nothing,
    ) -> None:
        with self._file.changing() as table:
            place = place_of(table, name)
            role = Role(str(table[place]["role"]))
            table[place] = new_entry(name, role, proof, expires_at)
            before_it_is_known()
            self._note("rotate", name, **_noted(table[place]))

    def check(self) -> None:
        """Check, before anybody is served, that the file can be read.

        A file that is not this software's, or cannot be read, is its reader's error.
        """
        self._known_now.proofs()

    def is_intact(self) -> bool:
        """Return whether the file is as it should be; if not, those of the last good one stay."""
        return self._known_now.is_intact()


def _noted(entry: Entry) -> dict[str, str | None]:
    """Return what is recorded of a caller; never a hash."""
    proof = next(proof for proof in Proof if proof in entry)
    kept = {name: entry[name] for name in ("role", "expires_at")}
    return {**kept, "proof": proof.name.lower()}


def proof_of(authorization: str | None, certificate: bytes | None) -> Offered | None:
    """Return what is offered as proof, None if nothing is; nothing is believed yet.

    Args:
        authorization: "Bearer " and a token.
        certificate: DER, verified by TLS; where there is one, it alone counts.
    """
    if certificate is not None:
        return Proof.CERTIFICATE, _hash(certificate)
    if authorization is None or not authorization.startswith(_SCHEME):
        return None
    token = authorization.removeprefix(_SCHEME)
    return Proof.TOKEN, _hash(token.encode("utf-8", "replace"))


def token_digest(token: str) -> str:
    """Return what is kept of a token."""
    return _hash(token.encode("utf-8", "replace"))


def _hash(proof: bytes) -> str:
    return hashlib.sha256(proof).hexdigest()
