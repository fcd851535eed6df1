"""Check a privacy certificate: the signature, and whose it is."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import BaseModel, Field, TypeAdapter

from analyst.documents import STRICT, DocumentProblem, checked, parsed, read_bounded
from analyst.errors import CertificateError, CertificateFileError
from analyst.rehearsal import is_rehearsal

FORMAT = "weir-privacy-certificate-1"
_BANNER = "*** REHEARSAL: this certifies NOTHING about privacy. Do not publish on its strength. ***"
_EXPORT = "weir-ledger-export-"
_LONGEST_FIRST_LINE = 1 << 16
_FINGERPRINT: Final = re.compile("[0-9a-f]{64}")
_PAGE: Final = b"<!doctype html>"
_LONGEST_PAGE: Final = 1 << 24
_BASE64: Final = b"([A-Za-z0-9+/]+={0,2})"
_LAST_LINE: Final = re.compile(b"<!-- weir-evidence-1 %s %s -->" % (_BASE64, _BASE64))
_REMEDY_PAGE = "Ask the curator's steward for the page again."
_REMEDY = "Ask the curator's steward for the certificate again."


class _File(BaseModel):
    model_config = STRICT

    statement: dict[str, Any]
    public_key: str
    signature: str


class _AnyStatement(BaseModel):
    """What is read of the statement of a rehearsal, or of another version."""

    model_config = STRICT

    dataset: dict[str, Any] = Field(default_factory=dict)
    run: dict[str, Any] = Field(default_factory=dict)


class _Spent(BaseModel):
    model_config = STRICT

    epsilon: Annotated[float, Field(ge=0)]
    delta: Annotated[float, Field(ge=0, le=1)]


class _Alone(BaseModel):
    model_config = STRICT

    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=True)]  # no finite one may be known


class _Dataset(BaseModel):
    model_config = STRICT

    name: str
    adjacency: str
    promise: _Spent
    spent_epsilon: Annotated[float, Field(ge=0)]


class _Run(BaseModel):
    model_config = STRICT

    id: str
    analyst: str
    mechanism: str
    declared_steps: Annotated[int, Field(ge=0)]
    used_steps: Annotated[int, Field(ge=0)]
    close_reason: str


class _Head(BaseModel):
    model_config = STRICT

    sequence: Annotated[int, Field(ge=0)]
    digest: str


class _Statement(BaseModel):
    """What is read of a statement."""

    model_config = STRICT

    dataset: _Dataset
    run: _Run
    this_run_alone_at_its_declared_steps: _Alone
    ledger_head: _Head


_CERTIFICATE = TypeAdapter(_File)
_ANY_STATEMENT, _STATEMENT = TypeAdapter(_AnyStatement), TypeAdapter(_Statement)


@dataclass(frozen=True, slots=True)
class Verified:
    """A statement whose signature holds, and the fingerprint of the key that made it."""

    statement: dict[str, Any]
    fingerprint: str

    @property
    def is_rehearsal(self) -> bool:
        """Whether it is of public data without a limit, and so promises nothing."""
        dataset = self.statement.get("dataset", {})
        named = is_rehearsal(str(dataset.get("name", "")))
        return named or self.statement.get("format") != FORMAT or "rehearsal" in self.statement


def check_certificate(
    path: Path, public_key: bytes | None = None, fingerprint: str | None = None
) -> Verified:
    """Check a certificate's signature, and whose it is.

    Args:
        path: The file.
        public_key: The curator's key, as the credentials file has it.
        fingerprint: Of the curator's key, as the steward told it; capitals and blanks do not count.

    Raises:
        CertificateError: If the file is damaged, was changed, or another key signed it, or the
            fingerprint is none; a `CertificateFileError` if it cannot be read.
    """
    _check_fingerprint(fingerprint)
    statement, named = _verify(path, public_key)
    return Verified(statement, _signer(path, named, fingerprint))


def is_evidence(path: Path) -> bool:
    """Return whether a file is a page, such as 'curator evidence' writes."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(_PAGE)).lower() == _PAGE
    except OSError:
        return False


def check_evidence(
    path: Path, public_key: bytes | None = None, fingerprint: str | None = None
) -> str:
    """Check the signature of a page of evidence, and whose it is.

    Args:
        path: The page that 'curator evidence' wrote.
        public_key: The curator's key, as the credentials file has it.
        fingerprint: Of the curator's key, as for `check_certificate`.

    Returns:
        The fingerprint of the key that signed it.

    Raises:
        CertificateError: If it was changed, is not signed, or another key signed it.
        CertificateFileError: If it cannot be read.
    """
    _check_fingerprint(fingerprint)
    try:
        content = read_bounded(path, _LONGEST_PAGE)
    except (FileNotFoundError, DocumentProblem) as problem:
        msg = f"cannot read {path}: {problem}."
        raise CertificateFileError(msg, "Check the path.") from None
    page, _, last = content.rstrip(b"\n").rpartition(b"\n")
    found = _LAST_LINE.fullmatch(last)
    if found is None:
        msg = f"{path} is a page without the signature of a curator."
        raise CertificateError(msg, "Ask the steward for the page that 'curator evidence' wrote.")
    try:
        named, signature = (base64.b64decode(part) for part in found.groups())
        if public_key is not None and named != public_key:
            msg = f"{path} was signed by another curator."
            raise CertificateError(msg, _REMEDY_PAGE)
        Ed25519PublicKey.from_public_bytes(named).verify(signature, page + b"\n")
    except (InvalidSignature, ValueError):
        msg = f"{path} was changed after it was signed."
        raise CertificateError(msg, _REMEDY_PAGE) from None
    return _signer(path, named, fingerprint)


def _check_fingerprint(fingerprint: str | None) -> None:
    """Refuse what is no fingerprint.

    Raises:
        CertificateError: If it is none.
    """
    if fingerprint is not None and not _FINGERPRINT.fullmatch(_plain(fingerprint)):
        msg = f"'{fingerprint}' is not the fingerprint of a key."
        remedy = "Give it as 'curator key' prints it: SHA256: and 64 digits and letters a to f."
        raise CertificateError(msg, remedy)


def _signer(path: Path, public_key: bytes, fingerprint: str | None) -> str:
    """Return the fingerprint of the key that signed, if it is the one that was told.

    Raises:
        CertificateError: If it is another.
    """
    signer = fingerprint_of(public_key)
    if fingerprint is not None and _plain(fingerprint) != _plain(signer):
        msg = f"{path} was signed by another curator, of the key {signer}."
        raise CertificateError(msg, _REMEDY)
    return signer


def fingerprint_of(public_key: bytes) -> str:
    """Return how people compare a key: SHA256 and 64 hexadecimal digits.

    Args:
        public_key: The 32 bytes of an Ed25519 key.
    """
    return f"SHA256:{hashlib.sha256(public_key).hexdigest()}"


def _plain(fingerprint: str) -> str:
    return "".join(fingerprint.lower().removeprefix("sha256:").replace(":", "").split())


def _verify(path: Path, public_key: bytes | None) -> tuple[dict[str, Any], bytes]:
    """Return the statement and the key that signed it.

    Raises:
        CertificateError: If the file is damaged, was changed, or another key signed it.
        CertificateFileError: If it cannot be read.
    """
    try:
        text = read_bounded(path)
    except FileNotFoundError:
        msg = f"cannot read {path}: there is no such file."
        raise CertificateFileError(msg, "Check the path.") from None
    except DocumentProblem as problem:
        _refuse_export(path)
        msg = f"cannot read {path}: {problem}."
        raise CertificateFileError(msg, "Check the path.") from None
    try:
        content = parsed(_CERTIFICATE, text)
        named = base64.b64decode(content.public_key, validate=True)
        signature = base64.b64decode(content.signature, validate=True)
        signed = json.dumps(content.statement, sort_keys=True, separators=(",", ":")).encode()
        key = Ed25519PublicKey.from_public_bytes(named)
    except DocumentProblem as problem:
        _refuse_export(path)
        msg = f"{path} is not a privacy certificate: {problem}."
        raise CertificateError(msg, _REMEDY) from None
    except (ValueError, RecursionError):
        msg = f"{path} is not a privacy certificate: its key or its signature is none."
        raise CertificateError(msg, _REMEDY) from None
    if public_key is not None and named != public_key:
        msg = f"{path} was signed by another curator."
        raise CertificateError(msg, _REMEDY)
    try:
        key.verify(signature, signed)
    except InvalidSignature:
        msg = f"{path} was changed after it was signed."
        raise CertificateError(msg, _REMEDY) from None
    return _checked(path, content.statement), named


def _refuse_export(path: Path) -> None:
    """Say so where a ledger export was given instead.

    Raises:
        CertificateError: If it is one.
    """
    try:
        with path.open("rb") as stream:
            first = json.loads(stream.readline(_LONGEST_FIRST_LINE))
    except (OSError, ValueError, RecursionError):
        return
    if isinstance(first, dict) and str(first.get("format")).startswith(_EXPORT):
        msg = f"{path} is a ledger export, not a privacy certificate."
        remedy = (
            "Give the certificate that the run's analyst has; 'curator ledger verify FILE' checks "
            "an export."
        )
        raise CertificateError(msg, remedy)


def _checked(path: Path, statement: dict[str, Any]) -> dict[str, Any]:
    """Return a signed statement that says all that is read of it: anybody can sign anything.

    Raises:
        CertificateError: If it does not.
    """
    try:
        checked(_ANY_STATEMENT, statement)
        if not Verified(statement, "").is_rehearsal:
            checked(_STATEMENT, statement)
    except DocumentProblem as problem:
        msg = f"{path} was signed, and is no statement of a curator: {problem}."
        raise CertificateError(msg, _REMEDY) from None
    return statement


def certificate_text(verified: Verified) -> str:
    """Return a certificate in words."""
    statement = verified.statement
    if verified.is_rehearsal:
        return _rehearsal_text(verified)
    dataset, run = statement["dataset"], statement["run"]
    promise, alone = dataset["promise"], statement["this_run_alone_at_its_declared_steps"]
    used = f"{run['used_steps']:,} of {run['declared_steps']:,} steps, {run['close_reason']}"
    epsilon, delta = promise["epsilon"], promise["delta"]
    head = statement["ledger_head"]
    lines = {
        "data set": f"{dataset['name']}, {dataset['adjacency']}",
        "promise": f"epsilon {epsilon:g} at delta {delta:g}, over all runs",
        "spent": f"epsilon {dataset['spent_epsilon']:.4f} when this was signed",
        "run": f"{run['id']} of {run['analyst']}: {run['mechanism']}, {used}",
        "alone": f"epsilon {alone['epsilon']:.4f} at its declared steps; not the promise",
        "ledger": f"entry {head['sequence']}, {head['digest']}",
        "signed by": verified.fingerprint,
    }
    return _lines(lines)


def _rehearsal_text(verified: Verified) -> str:
    """Return what is left to say of a certificate that promises nothing."""
    dataset = verified.statement.get("dataset", {})
    run = verified.statement.get("run", {})
    lines = {
        "data set": f"{dataset.get('name')}, PUBLIC DATA WITHOUT A LIMIT",
        "promise": "NONE",
        "run": f"{run.get('id')} of {run.get('analyst')}: {run.get('mechanism')}",
        "signed by": verified.fingerprint,
    }
    return f"{_BANNER}\n{_lines(lines)}\n{_BANNER}"


def _lines(lines: dict[str, str]) -> str:
    return "\n".join(f"{name:<10} {words}" for name, words in lines.items())
