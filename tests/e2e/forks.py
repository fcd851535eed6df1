"""Processes of both programs, forked off one that has imported them and their libraries.

Most of a command's processor time is importing torch, numba, SQLAlchemy and our modules (a training
imports torch's compiler too, though it compiles nothing), and an end-to-end test starts many
commands. A server that has imported all of it, and has run nothing of ours but the compiled loops'
check, forks a child for each: the child is a process of its own in every other way, and runs `main`
as `python -m` does, or a file. What it starts as `sys.executable -m` is forked in its turn. What a
start itself does is tested by real ones (`tests/unit/cli`, the tutorial, the crash tests).
Elsewhere than on Linux, where a fork of a program with these libraries may not live, they start
as `python -m` does.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

ROOT: Final = Path(__file__).resolve().parents[2]
_LIBRARIES: Final = (
    *("numpy", "torch", "numba", "scipy.special", "scipy.stats", "PIL.Image", "jinja2", "uvicorn"),
    *("sqlalchemy.dialects.sqlite", "fastapi", "pydantic", "cryptography.x509", "torch._dynamo"),
    *("sklearn.datasets", "sklearn.linear_model", "dp_accounting.pld.privacy_loss_distribution"),
)
_LONGEST: Final = 1 << 20
_READY_SECONDS: Final = 240.0
_ADDRESS: Final = "WEIR_FORKS"  # of the server of a test run, for its workers
_FORKS: Final = sys.platform == "linux"
_SHORT: Final = "/tmp"  # noqa: S108 - the name of a socket has about a hundred characters


class Forked:
    """A process of one of the programs; like `subprocess.Popen`, as far as tests need it."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        stdout: int,
        stderr: int,
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
        server: str | None = None,
    ) -> None:
        """Begin `words`, of which the first is "curator", "analyst", a module or a file to run."""
        self.returncode: int | None = None
        self._started: subprocess.Popen[bytes] | None = None
        if not _FORKS:
            self._started = subprocess.Popen(
                [sys.executable, *_options(words[0]), *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env=env,
            )
            self.pid = self._started.pid
            return
        self._connection = _connected(server or server_address())
        asked = {
            "words": list(words),
            "cwd": str(cwd),
            "env": dict(os.environ if env is None else env),
        }
        socket.send_fds(self._connection, [json.dumps(asked).encode()], [stdout, stderr])
        self.pid = int(self._connection.recv(_LONGEST))

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        ended = self._ended(timeout)
        if ended is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return ended

    def _ended(self, timeout: float | None) -> int | None:
        if self._started is not None:
            with suppress(subprocess.TimeoutExpired):
                self.returncode = self._started.wait(timeout)
            return self.returncode
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                self.returncode = int(self._connection.recv(_LONGEST))
            except (TimeoutError, BlockingIOError):
                return None
            self._connection.close()
        return self.returncode


def run(
    words: Sequence[str], *, timeout: float, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, like `subprocess.run` with its output captured."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = Forked(words, stdout=stdout.fileno(), stderr=stderr.fileno(), cwd=cwd, env=env)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            raise
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(list(words), code, stdout.read(), stderr.read())


@functools.cache
def server_address() -> str:
    """Return the address of the server that was started for this test run, else start one."""
    return os.environ.get(_ADDRESS) or _start()


def start_for_workers() -> None:
    """Start one server for all workers of a test run; it imports while they collect the tests."""
    if _FORKS and _ADDRESS not in os.environ:
        os.environ[_ADDRESS] = _start()


def _start() -> str:
    """Start a server that ends with this process, and return its address at once."""
    folder = tempfile.TemporaryDirectory(prefix="weir-forks-", dir=_SHORT)
    address = f"{folder.name}/socket"
    script = Path(_executable(address))
    script.write_text(f'#!/bin/sh\nexec {_client(address)} "$@"\n')
    script.chmod(0o700)
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.forks", address],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stdin=subprocess.PIPE,  # the server ends when this process does
    )

    def end() -> None:
        started.kill()
        started.communicate()
        folder.cleanup()

    atexit.register(end)
    return address


def _connected(address: str) -> socket.socket:
    """Connect to a server, which may still import."""
    until = time.monotonic() + _READY_SECONDS
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return connection


def executable() -> str:
    """Return what to start as `sys.executable -m` for it to be forked."""
    return _executable(server_address()) if _FORKS else sys.executable


def _executable(address: str) -> str:
    return str(Path(address).with_name("python"))


def serve(address: str) -> None:
    """Fork a process for each connection, until standard input ends."""
    for library in _LIBRARIES:
        importlib.import_module(library)
    for program in ("curator", "analyst"):
        _import_all_of(importlib.import_module(program))
    importlib.import_module("curator.divergences.backend").check_body("numba")  # loads its loops
    for side in ("curator.divergences", "analyst.embedding"):
        importlib.import_module(f"{side}.scattering").why_plain()  # and those
    gc.collect()
    gc.freeze()  # else each child looks through all of it for garbage
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a guardian
    sys.executable = _executable(address)  # of all children
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        while True:
            readable, _, _ = select.select([0, listener.fileno()], [], [])
            if listener.fileno() not in readable:
                return
            connection, _ = listener.accept()
            if not os.fork():
                listener.close()
                _guard(connection)
            connection.close()


def _import_all_of(package: ModuleType) -> None:
    """Import a program's modules, but what runs when it is imported and what is not installed."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not {"__main__", "migrations"} & set(module.name.split(".")):
            with suppress(ImportError):
                importlib.import_module(module.name)


def _guard(connection: socket.socket) -> NoReturn:
    """Fork the program, tell who it is, wait, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, descriptors, _, _ = socket.recv_fds(connection, _LONGEST, 2)
    child = os.fork()
    if not child:
        connection.close()
        _be(json.loads(message), descriptors)
    for descriptor in (0, 1, 2, *descriptors):
        os.close(descriptor)  # so that a pipe ends when the program does
    connection.send(str(child).encode())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):  # nobody may ask any more
        connection.send(str(status).encode())
    os._exit(0)


def _be(asked: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Run a program as `python -m` does."""
    for place, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), *descriptors)):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    program, *words = asked["words"]
    sys.argv = [program, *words]
    code = 1
    try:
        if program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(_module(program), run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    else:
        code = 0
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _options(program: str) -> Sequence[str]:
    return (program,) if program.endswith(".py") else ("-m", _module(program))


def _module(program: str) -> str:
    """Return what `python -m` is given."""
    return f"{program}.cli" if program in {"curator", "analyst"} else program


def shell_functions() -> str:
    """Return Bash functions `curator` and `analyst` that run them."""
    names = ("curator", "analyst")
    if not _FORKS:
        return "".join(f'{name}() {{ {sys.executable} -m {name}.cli "$@"; }}\n' for name in names)
    start = _client(server_address())
    return "".join(f'{name}() {{ {start} {name} "$@"; }}\n' for name in names)


def _client(address: str) -> str:
    return f"{sys.executable} -S -E {Path(__file__).resolve()} {address}"


def _be_client_of(server: str, words: Sequence[str]) -> int:
    """Have a program forked, pass signals on to it, and return its exit code."""
    words = words[1:] if words[0] == "-m" else words
    process = Forked(words, stdout=1, stderr=2, cwd=Path.cwd(), server=server)

    def pass_on(number: int, _: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    return process.wait()


if __name__ == "__main__":
    if sys.argv[2:]:
        sys.exit(_be_client_of(sys.argv[1], sys.argv[2:]))
    serve(sys.argv[1])
