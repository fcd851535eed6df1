"""A replaced server certificate is served to the next connection, without a restart."""

from __future__ import annotations

import shutil
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from curator.identity.certificates import create_certificates
from tests.e2e.identity_doors import Doors, serving

pytestmark = pytest.mark.e2e


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    with serving(tmp_path / "curator") as doors:
        yield doors


def served(doors: Doors, port: int, name: str) -> int:
    """Return the serial number of the certificate that a new connection sees."""
    identity = doors.folder.identity
    tls = ssl.create_default_context(cafile=str(identity / "ca.pem"))
    tls.set_alpn_protocols(["h2"])
    content = doors.credentials(name)
    if "client_certificate" in content:
        pem = doors.folder.root / "client.pem"
        pem.write_text(content["client_certificate"] + content["client_key"])
        tls.load_cert_chain(pem)
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        tls.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        der = secured.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


@pytest.mark.parametrize("door", ["tokens", "certificates", "rest"])
def test_the_next_connection_sees_the_new_certificate(
    doors: Doors, tmp_path: Path, door: str
) -> None:
    rpc, identity = doors.curator.rpc, doors.folder.identity
    port = {
        "tokens": rpc.port,
        "certificates": rpc.certificate_port,
        "rest": doors.curator.rest.port,
    }[door]
    assert port is not None
    name = "alice-certificate" if door == "certificates" else "alice"
    before = served(doors, port, name)
    assert served(doors, port, name) == before

    fresh = tmp_path / "fresh"
    fresh.mkdir()
    for kept in ("ca.pem", "ca.key"):
        shutil.copy(identity / kept, fresh / kept)
    create_certificates(fresh, ["other.example.org"])
    (fresh / "server.key").replace(identity / "server.key")
    assert served(doors, port, name) == before  # a key that does not fit is not taken
    (fresh / "server.pem").replace(identity / "server.pem")
    after = served(doors, port, name)
    assert after != before
    assert (
        after
        == x509.load_pem_x509_certificate((identity / "server.pem").read_bytes()).serial_number
    )
