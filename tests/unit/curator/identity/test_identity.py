"""Keys are private, tokens are kept as hashes, and nobody is known without one."""

from __future__ import annotations

import json
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from curator.errors import Unauthenticated
from curator.identity.callers_file import CallerExists, NoSuchCaller
from curator.identity.certificates import create_certificates, issue_client_certificate
from curator.identity.tokens import TokenTable
from curator.service.caller import Caller, Role


def test_a_new_name_gets_a_new_certificate_from_the_same_authority(tmp_path: Path) -> None:
    create_certificates(tmp_path, [])
    authority = (tmp_path / "ca.pem").read_bytes()
    before = (tmp_path / "server.pem").read_bytes()
    create_certificates(tmp_path, ["other.example.org"])
    after = (tmp_path / "server.pem").read_bytes()
    assert after != before
    assert (tmp_path / "ca.pem").read_bytes() == authority
    x509.load_pem_x509_certificate(after).verify_directly_issued_by(
        x509.load_pem_x509_certificate(authority)
    )


def test_certificates_name_every_host_and_are_kept(tmp_path: Path) -> None:
    create_certificates(tmp_path, ["curator.example.org", "10.1.2.3"])
    before = (tmp_path / "server.pem").read_bytes()
    create_certificates(tmp_path, ["curator.example.org"])
    assert (tmp_path / "server.pem").read_bytes() == before
    server = x509.load_pem_x509_certificate(before)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "curator.example.org"} <= set(names.get_values_for_type(x509.DNSName))
    addresses = {str(a) for a in names.get_values_for_type(x509.IPAddress)}
    assert {"127.0.0.1", "::1", "10.1.2.3"} <= addresses
    authority = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    server.verify_directly_issued_by(authority)
    ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0


def test_a_token_is_known_and_not_kept(tmp_path: Path) -> None:
    table = TokenTable(tmp_path / "callers.json")
    token = table.add("alice", Role.ANALYST)
    assert table.authenticate(f"Bearer {token}") == Caller("alice", Role.ANALYST)
    assert token not in (tmp_path / "callers.json").read_text()
    assert len(json.loads((tmp_path / "callers.json").read_text())[0]["token_sha256"]) == 64


@pytest.mark.parametrize("value", [None, "", "Bearer ", "Bearer x", "bearer {}", "{}", "Basic {}"])
def test_anything_else_is_refused_with_the_same_words(tmp_path: Path, value: str | None) -> None:
    table = TokenTable(tmp_path / "callers.json")
    token = table.add("alice", Role.ANALYST)
    offered = None if value is None else value.format(token)
    with pytest.raises(Unauthenticated) as caught:
        table.authenticate(offered)
    assert str(caught.value) == Unauthenticated.public_message


def test_a_caller_added_later_is_known_at_once(tmp_path: Path) -> None:
    serving = TokenTable(tmp_path / "callers.json")
    with pytest.raises(Unauthenticated):
        serving.authenticate("Bearer x")
    token = TokenTable(tmp_path / "callers.json").add("bob", Role.ANALYST)
    assert serving.authenticate(f"Bearer {token}").name == "bob"


def test_names_are_checked_and_taken_once(tmp_path: Path) -> None:
    table = TokenTable(tmp_path / "callers.json")
    table.add("alice", Role.ANALYST)
    with pytest.raises(CallerExists, match="alice"):
        table.add("alice", Role.ANALYST)
    for bad in ("", "Alice", "a b", "../x", "a" * 65):
        with pytest.raises(ValueError, match="name"):
            table.add(bad, Role.ANALYST)


class Clock:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def test_a_token_ends_when_it_expires(tmp_path: Path) -> None:
    clock = Clock()
    table = TokenTable(tmp_path / "callers.json", clock)
    token = table.add("alice", Role.ANALYST, clock.now + timedelta(hours=1))
    assert table.authenticate(f"Bearer {token}").name == "alice"
    clock.now += timedelta(hours=1)
    with pytest.raises(Unauthenticated):
        table.authenticate(f"Bearer {token}")


def test_revoking_and_rotating_work_at_once_and_keep_the_name(tmp_path: Path) -> None:
    serving, steward = TokenTable(tmp_path / "callers.json"), TokenTable(tmp_path / "callers.json")
    first = steward.add("alice", Role.ANALYST)
    assert serving.authenticate(f"Bearer {first}").name == "alice"
    steward.revoke("alice")
    with pytest.raises(Unauthenticated):
        serving.authenticate(f"Bearer {first}")
    with pytest.raises(CallerExists):
        steward.add("alice", Role.ANALYST)
    second = steward.rotate("alice")
    assert serving.authenticate(f"Bearer {second}") == Caller("alice", Role.ANALYST)
    with pytest.raises(Unauthenticated):
        serving.authenticate(f"Bearer {first}")
    assert [(one.name, one.revoked) for one in steward.callers()] == [("alice", False)]


@pytest.mark.parametrize("action", ["revoke", "rotate"])
def test_an_unknown_caller_is_named(tmp_path: Path, action: str) -> None:
    with pytest.raises(NoSuchCaller, match="carol"):
        getattr(TokenTable(tmp_path / "callers.json"), action)("carol")


class TestClientCertificates:
    def test_the_subject_is_the_name_and_the_authority_signs(self, tmp_path: Path) -> None:
        create_certificates(tmp_path, [])
        issued = issue_client_certificate(tmp_path, "alice")
        certificate = x509.load_pem_x509_certificate(issued.certificate.encode())
        assert certificate.subject.rfc4514_string() == "CN=alice"
        certificate.verify_directly_issued_by(
            x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
        )
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        assert certificate.not_valid_after_utc == issued.expires_at
        assert issued.key not in repr(issued)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
            ["ca.key", "ca.pem", "server.key", "server.pem"]
        )

    def test_it_is_known_by_its_hash_until_it_ends(self, tmp_path: Path) -> None:
        clock = Clock()
        table = TokenTable(tmp_path / "callers.json", clock)
        table.add_certificate("alice", Role.AUDITOR, b"der", clock.now + timedelta(hours=1))
        assert table.identify(None, b"der") == Caller("alice", Role.AUDITOR)
        with pytest.raises(Unauthenticated):
            table.identify(None, b"other")
        clock.now += timedelta(hours=1)
        with pytest.raises(Unauthenticated):
            table.identify(None, b"der")

    def test_on_a_connection_with_one_no_header_is_read(self, tmp_path: Path) -> None:
        table = TokenTable(tmp_path / "callers.json")
        token = table.add("bob", Role.ANALYST)
        table.add_certificate("alice", Role.ANALYST, b"der", datetime.now(UTC) + timedelta(1))
        assert table.identify(f"Bearer {token}", b"der").name == "alice"
        with pytest.raises(Unauthenticated):
            table.identify(f"Bearer {token}", b"unknown")

    def test_a_hash_of_one_kind_is_no_proof_of_the_other(self, tmp_path: Path) -> None:
        table = TokenTable(tmp_path / "callers.json")
        token = table.add("bob", Role.ANALYST)
        with pytest.raises(Unauthenticated):
            table.identify(None, token.encode())

    def test_rotating_changes_the_kind_and_ends_the_old_one(self, tmp_path: Path) -> None:
        table = TokenTable(tmp_path / "callers.json")
        token = table.add("alice", Role.AUDITOR)
        table.rotate_certificate("alice", b"der", datetime.now(UTC) + timedelta(1))
        with pytest.raises(Unauthenticated):
            table.identify(f"Bearer {token}", None)
        assert table.identify(None, b"der") == Caller("alice", Role.AUDITOR)
        table.revoke("alice")
        with pytest.raises(Unauthenticated):
            table.identify(None, b"der")
        assert [one.revoked for one in table.callers()] == [True]
