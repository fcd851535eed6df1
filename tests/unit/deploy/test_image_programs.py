"""The programs of the curator's image: first configuration, entry point and health check."""

from __future__ import annotations

import http.server
import json
import runpy
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from curator.config import CuratorConfig, load_config
from curator.identity.certificates import create_certificates
from curator.identity.credentials import credentials_file

IMAGE = Path(__file__).parents[3] / "deploy" / "image"


def _first_config(path: Path, names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_HOST_NAMES", names)
    monkeypatch.setattr(sys, "argv", ["first_config.py", str(path)])
    runpy.run_path(str(IMAGE / "first_config.py"), run_name="__main__")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("curator", ("curator",)),
        ("curator weir.example.org,10.0.0.7", ("curator", "weir.example.org", "10.0.0.7")),
        ("curator ", ("curator",)),
    ],
)
def test_the_first_configuration_differs_from_the_defaults_by_the_host_names_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, expected: tuple[str, ...]
) -> None:
    path = tmp_path / "data" / "curator.toml"
    _first_config(path, names, monkeypatch)
    values = CuratorConfig().model_dump()
    values["identity"]["host_names"] = expected
    assert load_config(path) == CuratorConfig.model_validate(values)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["curator.toml"]


def test_the_stewards_configuration_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "curator.toml"
    path.write_text("# mine\n")
    _first_config(path, "curator", monkeypatch)
    assert path.read_text() == "# mine\n"


SERVE = (
    "--grpc-host 0.0.0.0 --grpc-port 50051 --rest-host 0.0.0.0 --rest-port 8080 "
    "--rest-health-port 8081"
)


@pytest.mark.parametrize(
    ("words", "last"),
    [
        ("", f"curator serve --dir DIR {SERVE}"),
        ("serve", f"curator serve --dir DIR {SERVE}"),
        ("serve --reflection", f"curator serve --dir DIR {SERVE} --reflection"),
        ("init", "curator init DIR"),
        (
            "dataset add digits sklearn:digits",
            "curator dataset add --dir DIR digits sklearn:digits",
        ),
        ("dataset list", "curator dataset list --dir DIR"),
        ("analyst add alice --out x", "curator analyst add --dir DIR alice --out x"),
        ("budget --json", "curator budget --dir DIR --json"),
        ("ledger export", "curator ledger export --dir DIR"),
        ("ledger backup --out x", "curator ledger backup --dir DIR --out x"),
        ("dataset pause digits --reason y", "curator dataset pause --dir DIR digits --reason y"),
        ("analyst revoke alice", "curator analyst revoke --dir DIR alice"),
    ],
)
def test_the_entry_point_makes_the_folder_and_then_runs_the_command(
    tmp_path: Path, words: str, last: str
) -> None:
    calls = _enter(tmp_path, words)
    expected = [
        f"python {IMAGE}/first_config.py DIR/curator.toml",
        "curator init DIR",
        last,
    ]
    assert calls == list(dict.fromkeys(expected))


@pytest.mark.parametrize(
    "words",
    [
        *("--help", "ledger verify x", "dataset --help", "init elsewhere", "audit --trials 9"),
        *("dataset check /import", "ledger", "accountant explain x"),
    ],
)
def test_the_entry_point_leaves_other_commands_alone(tmp_path: Path, words: str) -> None:
    assert _enter(tmp_path, words) == [f"curator {words}"]


def test_the_doctor_sees_the_folder_as_it_is(tmp_path: Path) -> None:
    assert _enter(tmp_path, "doctor --json") == ["curator doctor --dir DIR --json"]


def test_the_entry_point_stops_where_the_folder_cannot_be_made(tmp_path: Path) -> None:
    assert _enter(tmp_path, "serve", failing="init", code=7)[-1] == "curator init DIR"


def test_the_ledgers_password_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    extra = {"WEIR_LEDGER_PASSWORD_FILE": str(tmp_path / "password")}
    _enter(tmp_path, "budget", extra=extra)
    assert (tmp_path / "passwords").read_text().split() == ["hunter2"] * 3
    assert "hunter2" not in (tmp_path / "calls").read_text()


def test_without_its_file_nothing_is_started(tmp_path: Path) -> None:
    extra = {"WEIR_LEDGER_PASSWORD_FILE": str(tmp_path / "missing")}
    with pytest.raises(FileNotFoundError):
        _enter(tmp_path, "serve", code=1, extra=extra)


def _enter(
    tmp_path: Path,
    words: str,
    *,
    failing: str = "-",
    code: int = 0,
    extra: dict[str, str] | None = None,
) -> list[str]:
    """Run the entry point with stand-ins that note how they were called."""
    for name in ("curator", "python"):
        program = tmp_path / name
        program.write_text(
            f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/calls\n'
            f'echo "${{PGPASSWORD:-}}" >> {tmp_path}/passwords\n'
            f'echo noise\n[ "$1" != {failing} ] || exit 7\n'
        )
        program.chmod(0o700)
    done = subprocess.run(
        ["sh", str(IMAGE / "entrypoint.sh"), *words.split()],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "CURATOR_DIR": "DIR", **(extra or {})},
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == code, done.stderr
    return (tmp_path / "calls").read_text().splitlines()


def test_prometheus_gets_the_token_and_the_authority_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_certificates(tmp_path, [])
    source, folder = tmp_path / "prometheus.json", tmp_path / "scrape"
    folder.mkdir()
    authority = tmp_path / "ca.pem"
    content = credentials_file(
        analyst="p", secret="t0ken", authority=authority, certificate_key=b"k" * 32
    )
    source.write_bytes(content)
    assert _scrape(source, folder, monkeypatch) == 0
    assert (folder / "token").read_text() == "t0ken"
    assert (folder / "ca.pem").read_text() == authority.read_text()
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o640}
    assert _scrape(source, folder, monkeypatch) == 0  # again, after a rotation
    source.write_text(json.dumps({"version": 1, "client_certificate": "c", "client_key": "k"}))
    assert _scrape(source, folder, monkeypatch) == 1


def _scrape(source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["scrape_credentials.py", str(source), str(folder)])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(IMAGE / "scrape_credentials.py"), run_name="__main__")
    code: int = end.value.code  # type: ignore[assignment]
    return code


@contextmanager
def _answering(folder: Path, status: int) -> Iterator[int]:
    """Serve one status over TLS; yield the port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:  # clients that do not trust it hang up
            pass

    server = Server(("127.0.0.1", 0), Handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "identity" / "server.pem", folder / "identity" / "server.key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _folder(path: Path) -> Path:
    (path / "identity").mkdir(parents=True)
    create_certificates(path / "identity", [])
    return path


def _is_ready(folder: Path, port: int) -> bool:
    program = runpy.run_path(str(IMAGE / "healthcheck.py"))
    ready: bool = program["is_ready"](folder, port)[0]
    return ready


@pytest.mark.parametrize(("status", "expected"), [(200, True), (503, False)])
def test_the_health_check_says_what_the_curator_says(
    tmp_path: Path, status: int, *, expected: bool
) -> None:
    folder = _folder(tmp_path)
    with _answering(folder, status) as port:
        assert _is_ready(folder, port) is expected


def test_the_health_check_trusts_this_curators_authority_only(tmp_path: Path) -> None:
    with _answering(_folder(tmp_path / "other"), 200) as port:
        assert not _is_ready(_folder(tmp_path / "mine"), port)


def test_the_health_check_fails_where_nothing_answers_or_nothing_is_made_yet(
    tmp_path: Path,
) -> None:
    folder = _folder(tmp_path / "made")
    with _answering(folder, 200) as port:
        pass
    assert not _is_ready(folder, port)
    assert not _is_ready(tmp_path / "missing", port)
