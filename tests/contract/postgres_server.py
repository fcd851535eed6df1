"""PostgreSQL servers of the tests' own, in their own folders, gone when they are.

One is shared by the tests of a process; a test that stops its server or puts the data back starts
another with `own_server`. They run as the user postgres when the tests run as root, listen on
Unix sockets only, and sync what they commit (into shared memory where there is some, so that it is
quick).
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
from collections.abc import Iterator
from contextlib import contextmanager
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
    """A running server; its data are in the folder `data`."""

    folder: Path
    binaries: Path
    data: str = "d"
    port: int = _PORT
    _schemas: itertools.count[int] = field(default_factory=itertools.count)

    def fresh(self) -> str:
        """Return the URL of an empty schema."""
        import psycopg  # here: `server` says where it is missing
        from psycopg.sql import SQL, Identifier

        name = f"ledger_{os.getpid()}_{next(self._schemas)}"
        with psycopg.connect(self.url("public"), autocommit=True) as connection:
            connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(name)))
        return self.url(name)

    def url(self, schema: str) -> str:
        options = quote(f"-c search_path={schema}")
        host = quote(str(self.folder), safe="")
        return f"postgresql://postgres@/postgres?host={host}&port={_PORT}&options={options}"

    def start(self) -> None:
        """Start it on its data, at its address."""
        options = f"-p {self.port} -k {self.folder} -c listen_addresses= -c max_connections=60"
        where = (
            "-D",
            self.folder / self.data,
            "-w",
            "-t",
            "60",
            "-l",
            self.folder / f"{self.data}.log",
        )
        as_owner(self.binaries / "pg_ctl", *where, "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        as_owner(self.binaries / "pg_ctl", "-D", self.folder / self.data, "-w", "-m", mode, "stop")

    def end(self) -> None:
        """Stop it whatever it does, and remove all that is its own."""
        pid_file = self.folder / self.data / "postmaster.pid"
        if pid_file.exists():
            os.kill(int(pid_file.read_text().split()[0]), signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def copy(self, data: str, *options: str) -> None:
        """Copy its data as they are now into another folder."""
        where = ("-h", self.folder, "-p", self.port, "-U", "postgres", "-D", self.folder / data)
        as_owner(self.binaries / "pg_basebackup", *options, "-X", "stream", "-c", "fast", *where)

    def make_standby(self, data: str) -> None:
        """Make a standby of this server as it is now; until it is started, it lags."""
        self.copy(data, "-R")

    def put_back(self, data: str) -> None:
        """Stop it, and start it on a copy of its data, as a steward restores a backup."""
        self.stop()
        as_owner("rm", "-rf", self.folder / self.data)
        as_owner("mv", self.folder / data, self.folder / self.data)
        self.start()

    @contextmanager
    def running_standby(self, data: str) -> Iterator[None]:
        """Let a standby run beside this server, at an address of its own."""
        standby = Server(self.folder, self.binaries, data, _PORT + 1)
        standby.start()
        try:
            yield
        finally:
            standby.stop("immediate")

    def fail_over_to(self, data: str) -> None:
        """Kill it, and promote a standby at its address."""
        self.stop("immediate")
        self.data = data
        self.start()
        as_owner(self.binaries / "pg_ctl", "-D", self.folder / data, "-w", "promote")

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
    return _started(binaries)


@contextmanager
def own_server() -> Iterator[Server]:
    """Start another server, or skip the test and say what is missing."""
    started = _started(postgres_or_skip().binaries)
    try:
        yield started
    finally:
        started.end()
        atexit.unregister(started.end)


def _started(binaries: Path) -> Server:
    started = Server(_own_folder(), binaries)
    atexit.register(started.end)
    as_owner("cp", "-R", _unused_data(binaries), started.folder / started.data)
    started.start()
    return started


@functools.cache
def _unused_data(binaries: Path) -> Path:
    """Make the data of a server that was never started, once: a copy is quicker than `initdb`."""
    folder = _own_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    options = ("--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8")
    as_owner(binaries / "initdb", *options, "-D", folder / "unused")
    return folder / "unused"


def _own_folder() -> Path:
    shared = _SHARED if _SHARED.is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="weir-postgres-", dir=shared))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    return folder


def _binaries() -> Path | None:
    for found in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (found / "initdb").exists() and (found / "postgres").exists():
            return found
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def as_owner(*command: object) -> None:
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
