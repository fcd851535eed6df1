"""What a steward reads when the ledger's database does not let the curator in."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from curator.cli import main
from curator.config import URL_VARIABLE
from curator.errors import LedgerUnavailable
from curator.ledger.database_errors import in_database_words
from curator.ledger.postgres import database_url
from tests.contract.postgres_server import Server, postgres_or_skip

SECRET = "hunter2"
Told = Callable[..., str]


@pytest.fixture(scope="module")
def server() -> Server:
    return postgres_or_skip()


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Told:
    """Return what a command says of a ledger that cannot be opened."""

    def say(url: str, *command: str) -> str:
        monkeypatch.setenv(URL_VARIABLE, url)
        code = main([*(command or ("init", str(tmp_path / "weir")))])
        said = capsys.readouterr().err
        assert code == 1
        assert said.startswith("curator: ")
        assert said.count("\n") == 1
        assert SECRET not in said
        return said

    return say


def test_init_makes_the_tables_and_changes_none(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.fresh()
    schema = url.rpartition("%3D")[2]
    monkeypatch.setenv(URL_VARIABLE, url)
    for folder in ("one", "two", "one"):
        assert main(["init", str(tmp_path / folder), "--quiet"]) == 0
        assert server.run_sql("SELECT value FROM meta WHERE key = 'schema_version'", schema)
        assert main(["budget", "--dir", str(tmp_path / folder), "--quiet"]) == 0
    server.run_sql("UPDATE meta SET value = '999' WHERE key = 'schema_version'", schema)
    assert main(["init", str(tmp_path / "three"), "--quiet"]) == 3


def test_missing_tables_are_said_to_a_reader(server: Server, tmp_path: Path, told: Told) -> None:
    assert main(["init", str(tmp_path / "weir"), "--quiet"]) == 0
    said = told(server.fresh(), "budget", "--dir", str(tmp_path / "weir"))
    assert "no ledger's tables" in said
    assert "'curator init DIR'" in said


def test_an_unknown_role_or_database_or_socket_is_named_as_such(server: Server, told: Told) -> None:
    url = server.url("public").replace("postgres@", f"postgres:{SECRET}@")
    assert "no such role; make it" in told(url.replace("postgres:", "nobody:"))
    assert "no such database; make it" in told(url.replace("/postgres?", "/none?"))
    assert "no such socket" in told(url.replace(f"port={server.port}", "port=1"))
    assert "wants encryption" not in told(url.replace("/postgres?", "/none?sslmode=require&"))
    assert "an option that PostgreSQL does not know" in told(f"{url}&weir=1")


@pytest.mark.parametrize("was_there", [False, True])
def test_an_init_that_fails_leaves_what_was_there(
    tmp_path: Path, told: Told, *, was_there: bool
) -> None:
    place = tmp_path / "deep" / "weir"
    if was_there:
        (place / "identity").mkdir(parents=True)
        (place / "identity" / "note.txt").write_text("mine")
        (place / "curator.toml").write_text("")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    told(f"mysql://u:{SECRET}@127.0.0.1:1/db", "init", str(place))
    after = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    assert after == before


def test_an_init_of_a_folder_that_is_one_takes_nothing_back(tmp_path: Path, told: Told) -> None:
    place = tmp_path / "weir"
    assert main(["init", str(place), "--quiet"]) == 0
    (place / "identity" / "fingerprint.key").unlink()  # made anew, and kept
    told(f"mysql://u:{SECRET}@127.0.0.1:1/db", "init", str(place))
    assert (place / "identity" / "fingerprint.key").exists()


def test_a_host_or_port_where_nothing_is_is_said(told: Told) -> None:
    pytest.importorskip("psycopg")
    assert "no host of that name" in told(f"postgresql://u:{SECRET}@no-such-host.invalid/db")
    assert "nothing listens" in told(f"postgresql://u:{SECRET}@127.0.0.1:1/db")


@pytest.mark.parametrize(
    "place",
    [
        f"u:p@{SECRET}@127.0.0.1:1/db",
        f"u:p@{SECRET}:{SECRET}@127.0.0.1:1/db",
        f"u:p@/{SECRET}@127.0.0.1:1/db",
        f"u:p@{SECRET}?{SECRET}@127.0.0.1/db",
        f"u:p@?{SECRET}@127.0.0.1:1/db?sslmode=require",
        f"u:p@{SECRET}?{SECRET}={SECRET}@127.0.0.1:1/db",
        f"u:{SECRET}/127.0.0.1:1/db",
    ],
)
def test_a_password_that_is_not_encoded_is_said_and_not_shown(place: str, told: Told) -> None:
    assert "%40" in told(f"postgresql://{place}")


def test_what_is_no_url_is_said(told: Told) -> None:
    assert "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE" in told(SECRET)
    short = told(f"postgres://u:{SECRET}@127.0.0.1:1/db")
    assert "begins with postgres:// and must begin with postgresql://" in short
    assert "needs a postgresql:// URL" in told(f"mysql://u:{SECRET}@127.0.0.1:1/db")


@pytest.mark.parametrize("sign", ["/", "#", "?", "%40"])
def test_what_can_be_told_apart_is_taken(sign: str) -> None:
    url = database_url(f"postgresql://user@hospital:a{sign}b@host/db?options=-c%20a=b")
    assert (url.username, url.host, url.database) == ("user@hospital", "host", "db")
    assert url.password == f"a{sign}b".replace("%40", "@")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'FATAL:  password authentication failed for user "weir"',
            "user or password is wrong",
        ),
        ("fe_sendauth: no password supplied", "asks for a password"),
        (
            'FATAL:  no pg_hba.conf entry for host "::1", user "weir", no encryption',
            "add ?sslmode=require",
        ),
        (
            'FATAL:  no pg_hba.conf entry for host "::1", user "weir", SSL encryption',
            "from this machine",
        ),
        ("server does not support SSL, but SSL was required", "the server offers none"),
        ("connection timeout expired", "firewall"),
        ("SSL error: certificate verify failed", "sslrootcert"),
        ("FATAL:  etwas anderes", "etwas anderes"),
    ],
)
def test_what_the_server_refuses_ends_in_what_to_do(text: str, words: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    refused = psycopg.OperationalError(f"connection failed: {text}")
    problem = LedgerUnavailable("the ledger's database failed")
    problem.__cause__ = OperationalError("SELECT 1", None, refused)
    said = in_database_words(problem) or ""
    assert words in said
    assert "; " in said


def reload(server: Server) -> None:
    """Let the server read its rules again, and wait until it has."""
    before = server.run_sql("SELECT pg_conf_load_time()")
    server.run_sql("SELECT pg_reload_conf()")
    while server.run_sql("SELECT pg_conf_load_time()") == before:
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("local all weir scram-sha-256", "user or password is wrong"),
        ("hostssl all weir all scram-sha-256", "?sslmode=require"),
    ],
)
def test_the_real_server_says_so(server: Server, rule: str, words: str, told: Told) -> None:
    """A role whose password is wrong, and one that is only let in with SSL."""
    rules = Path(server.run_sql("SHOW hba_file"))
    kept = rules.with_suffix(".kept")
    shutil.copy(rules, kept)
    try:
        server.run_sql("CREATE ROLE weir LOGIN PASSWORD 'another'")
        rules.write_text(f"{rule}\nlocal all postgres trust\n")
        reload(server)
        assert words in told(server.url("public").replace("postgres@", f"weir:{SECRET}@"))
    finally:
        shutil.copy(kept, rules)
        reload(server)
        server.run_sql("DROP ROLE weir")
