"""A PostgreSQL server of the tests' own, in its own folder, gone when they are.

It runs as the user postgres when the tests run as root, listens on a Unix socket only, and syncs
what it commits (into shared memory where there is some, so that it is quick).
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

_SHARED: Final = Path("/dev/shm")  # noqa: S108 - see above
_PORT: Final = 54321  # of a socket in a folder of its own
_UNLIKE_A_TEST: Final = {"LC_ALL": "C", "PATH": os.environ.get("PATH", "")}


@dataclass
class Server:
    """A running server."""

    folder: Path
    binaries: Path
    _schemas: itertools.count[int] = field(default_factory=itertools.count)

    def fresh(self) -> str:
        """Return the URL of an empty schema."""
        name = f"ledger_{os.getpid()}_{next(self._schemas)}"
        self.run_sql(f"CREATE SCHEMA {name}")
        return self.url(name)

    def url(self, schema: str) -> str:
        options = quote(f"-c search_path={schema}")
        host = quote(str(self.folder), safe="")
        return f"postgresql://postgres@/postgres?host={host}&port={_PORT}&options={options}"

    def run_sql(self, statement: str, schema: str = "public") -> str:
        """Run one statement as the owner of everything and return what psql prints."""
        command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres"]
        where = ["-h", str(self.folder), "-p", str(_PORT), "-d", "postgres", "-c", statement]
        environment = {**_UNLIKE_A_TEST, "PGOPTIONS": f"-c search_path={schema}"}
        return subprocess.run(
            [str(self.binaries / command[0]), *command[1:], *where],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()


def postgres_or_skip() -> Server:
    """Return the server of this process, or skip the test and say what is missing."""
    found = server()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@functools.cache
def server() -> Server | str:
    """Start the server once, or return why there is none."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed: pip install 'psycopg[binary]'"
    binaries = _binaries()
    if binaries is None:
        return "no PostgreSQL binaries: apt-get install postgresql"
    shared = _SHARED if _SHARED.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="weir-postgres-", dir=shared))
    started = Server(folder, binaries)
    atexit.register(_stop, started)
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    _as_owner(
        binaries / "initdb",
        "--no-sync",
        "-A",
        "trust",
        "-U",
        "postgres",
        "-E",
        "UTF8",
        "-D",
        folder / "d",
    )
    options = f"-p {_PORT} -k {folder} -c listen_addresses= -c max_connections=60"
    log = folder / "log"
    _as_owner(
        *(binaries / "pg_ctl", "-D", folder / "d", "-w", "-t", "60", "-l", log, "-o", options),
        "start",
    )
    return started


def _binaries() -> Path | None:
    for found in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (found / "initdb").exists() and (found / "postgres").exists():
            return found
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def _as_owner(*command: object) -> None:
    user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    subprocess.run(
        [str(part) for part in command],
        env=_UNLIKE_A_TEST,
        cwd="/",
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        **user,  # type: ignore[call-overload]
    )


def _stop(started: Server) -> None:
    pid_file = started.folder / "d" / "postmaster.pid"
    if pid_file.exists():
        os.kill(int(pid_file.read_text().split()[0]), signal.SIGQUIT)
    shutil.rmtree(started.folder, ignore_errors=True)
