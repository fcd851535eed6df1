"""An address that does not answer is told apart by what is wrong with it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from analyst.client.diagnose import why_unreachable


@pytest.fixture(autouse=True)
def no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def _pem(folder: Path, *, name: str, ended: bool = False, begins_in: int = -10) -> Path:
    """Write a certificate that signs itself, with its key; it begins in so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=begins_in))
        .not_valid_after(now + timedelta(days=-3 if ended else max(begins_in, 0) + 3))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / f"{name}-{ended}.pem"
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


@contextmanager
def _listening(pem: Path | None, *, alpn: str = "h2", answer: bytes = b"") -> Iterator[int]:
    """Listen with a certificate, or give each connection one answer without one."""
    server = socket.create_server(("localhost", 0))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if pem is not None:
        context.load_cert_chain(pem)
    context.set_alpn_protocols([alpn] if alpn else [])

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                if pem is not None:
                    context.wrap_socket(connection, server_side=True).close()
                elif answer and connection.recv(1):
                    connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)


def _public(pem: Path) -> str:
    text = pem.read_text()
    return text[text.index("-----BEGIN CERTIFICATE") :]


def test_a_certificate_that_ended_is_told_with_its_date(tmp_path: Path) -> None:
    pem = _pem(tmp_path, name="localhost", ended=True)
    day = datetime.now(UTC) - timedelta(days=3)
    with _listening(pem) as port:
        told = why_unreachable(f"localhost:{port}", _public(pem))
    assert told is not None
    assert (
        f"The curator is at localhost:{port}, but its certificate expired on {day:%Y-%m-}" in told
    )


def test_a_clock_that_is_behind_is_told_with_the_difference(tmp_path: Path) -> None:
    pem = _pem(tmp_path, name="localhost", begins_in=2)
    with _listening(pem) as port:
        told = why_unreachable(f"localhost:{port}", _public(pem))
    assert told is not None
    assert "this machine's clock says" in told
    assert "1 day, 23:59" in told or "2 days, 0:00" in told
    assert "one of the two clocks is wrong" in told


@pytest.mark.parametrize("name", ["grpc_proxy", "https_proxy", "http_proxy"])
def test_a_proxy_that_grpc_obeys_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "http://proxy.example:3128")
    told = why_unreachable("curator.example.org:50051", None)
    assert told is not None
    assert f"variable {name} sends this connection through a proxy" in told
    assert "set no_proxy=curator.example.org" in told


def test_a_proxy_that_is_not_for_this_host_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "other.example, localhost")
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    assert "nothing listens" in str(why_unreachable(f"localhost:{port}", None))


def test_a_certificate_for_another_name(tmp_path: Path) -> None:
    pem = _pem(tmp_path, name="elsewhere.example", ended=False)
    with _listening(pem) as port:
        told = why_unreachable(f"localhost:{port}", _public(pem))
    assert told is not None
    assert "not for the name localhost" in told


def test_another_curator_s_certificate(tmp_path: Path) -> None:
    mine = _pem(tmp_path, name="localhost", ended=False)
    (tmp_path / "other").mkdir()
    other = _pem(tmp_path / "other", name="localhost", ended=False)
    with _listening(other) as port:
        told = why_unreachable(f"localhost:{port}", _public(mine))
    assert told is not None
    assert "do not trust it" in told


def test_what_speaks_no_tls(tmp_path: Path) -> None:
    pem = _pem(tmp_path, name="localhost", ended=False)
    with _listening(None) as port:
        told = why_unreachable(f"localhost:{port}", _public(pem))
    assert told is not None
    assert "does not speak TLS" in told


@pytest.mark.parametrize("has_tls", [True, False])
def test_the_port_of_the_rest_api(tmp_path: Path, has_tls: bool) -> None:
    pem = _pem(tmp_path, name="localhost", ended=False) if has_tls else None
    with _listening(pem, alpn="", answer=b"HTTP/1.1 404 Not Found\r\n\r\n") as port:
        told = why_unreachable(f"localhost:{port}", _public(pem) if pem else None)
    assert told is not None
    assert f"localhost:{port} speaks HTTP but not gRPC" in told
    assert "looks like the REST port" in told


def test_what_speaks_neither() -> None:
    for answer in (b"", b"\x00\x00\x12\x04\x00\x00"):  # the second begins as HTTP/2 does
        with _listening(None, answer=answer) as port:
            assert why_unreachable(f"localhost:{port}", None) is None


def test_a_port_where_nothing_listens() -> None:
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    told = why_unreachable(f"localhost:{port}", None)
    assert told == f"localhost answers, but nothing listens on port {port}."


def test_a_name_that_is_no_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(socket, "create_connection", unknown)
    assert why_unreachable("curator.example.org:50051", None) == (
        "There is no machine of the name curator.example.org."
    )


@pytest.mark.parametrize("target", ["unix:/run/weir.sock", "localhost", ":1", "x:y"])
def test_what_is_no_host_and_port_is_left_to_others(target: str) -> None:
    assert why_unreachable(target, None) is None


def test_nothing_wrong_is_nothing_said(tmp_path: Path) -> None:
    pem = _pem(tmp_path, name="localhost", ended=False)
    with _listening(pem) as port:
        assert why_unreachable(f"localhost:{port}", _public(pem)) is None


def test_that_tls_is_spoken_is_told_who_speaks_without(tmp_path: Path) -> None:
    pem = _pem(tmp_path, name="localhost", ended=False)
    with _listening(pem) as port:
        told = why_unreachable(f"localhost:{port}", None)
    assert told is not None
    assert f"What listens at localhost:{port} speaks TLS: give the credentials file" in told
