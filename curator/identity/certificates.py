"""A certificate authority of the curator's own, and the certificates that it signs."""

from __future__ import annotations

import hashlib
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast, final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from curator.system.new_file import write_private as write_private

_AUTHORITY_DAYS, _SERVER_DAYS = 3650, 825
CLIENT_DAYS = 365
_CLOCK_SKEW = timedelta(minutes=5)
_RENEW_BEFORE = timedelta(days=30)
_PEM = serialization.Encoding.PEM


def create_certificates(folder: Path, host_names: Iterable[str]) -> None:
    """Make an authority once, and a server certificate whenever the present one will not do.

    The authority stays, so credentials that were handed out stay valid; the server certificate is
    issued again when it lacks a name or is about to expire.

    Args:
        folder: Gets ca.pem, ca.key, server.pem and server.key; keys are readable by the owner only.
        host_names: DNS names and addresses under which analysts will reach the server; the
            loopback names and this host's name are always among them.
    """
    names = dict.fromkeys(["localhost", "127.0.0.1", "::1", socket.gethostname(), *host_names])
    if not (folder / "ca.pem").exists():
        key = ec.generate_private_key(ec.SECP256R1())
        write_private(folder / "ca.key", _key_bytes(key))
        write_private(folder / "ca.pem", _authority(key).public_bytes(_PEM))
    if not _will_do(folder / "server.pem", names):
        _write_server(folder, names)


def _write_server(folder: Path, names: Iterable[str]) -> None:
    ends = datetime.now(UTC) + timedelta(days=_SERVER_DAYS)
    addresses = x509.SubjectAlternativeName([_general_name(name) for name in names])
    builder = _builder("Weir curator", ends).add_extension(addresses, critical=False)
    certificate, key = _signed(folder, builder, ExtendedKeyUsageOID.SERVER_AUTH)
    write_private(folder / "server.key", key)
    write_private(folder / "server.pem", certificate)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientCertificate:
    """What a caller proves itself with in TLS."""

    certificate: str  # PEM
    key: str = field(repr=False)  # PEM
    der: bytes
    expires_at: datetime


def issue_client_certificate(
    folder: Path, name: str, expires_at: datetime | None = None
) -> ClientCertificate:
    """Sign a client certificate with the curator's own authority; nothing is written.

    Args:
        folder: Has ca.pem and ca.key.
        name: Of the caller, which becomes the subject.
        expires_at: When it ends; in a year by default.
    """
    ends = expires_at or datetime.now(UTC) + timedelta(days=CLIENT_DAYS)
    ends = ends.replace(microsecond=0)
    certificate, key = _signed(folder, _builder(name, ends), ExtendedKeyUsageOID.CLIENT_AUTH)
    der = x509.load_pem_x509_certificate(certificate).public_bytes(serialization.Encoding.DER)
    return ClientCertificate(
        certificate=certificate.decode(), key=key.decode(), der=der, expires_at=ends
    )


def _will_do(path: Path, names: Iterable[str]) -> bool:
    """Return whether a server certificate has all names and does not expire soon."""
    if not path.exists():
        return False
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    known = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    has_names = {_general_name(name) for name in names} <= set(known)
    return has_names and certificate.not_valid_after_utc > datetime.now(UTC) + _RENEW_BEFORE


def _builder(subject: str, ends: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(datetime.now(UTC), ends) - _CLOCK_SKEW)
        .not_valid_after(ends)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = "Weir curator authority"
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        _builder(name, datetime.now(UTC) + timedelta(days=_AUTHORITY_DAYS))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )


def _signed(
    authority: Path, builder: x509.CertificateBuilder, usage: x509.ObjectIdentifier
) -> tuple[bytes, bytes]:
    """Sign a leaf certificate for a new key; return both as PEM."""
    issuer = x509.load_pem_x509_certificate((authority / "ca.pem").read_bytes())
    signer = cast(
        "ec.EllipticCurvePrivateKey",
        serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None),
    )
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = (
        builder.issuer_name(issuer.subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(identifier, critical=False)
        .sign(signer, hashes.SHA256())
    )
    return certificate.public_bytes(_PEM), _key_bytes(key)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        _PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


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
