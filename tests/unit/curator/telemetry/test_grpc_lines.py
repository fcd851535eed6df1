"""gRPC's core writes nothing between the lines of the log, unless the steward asks it to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from curator.system.tune_process import tune_process

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = """
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import curator.cli.serve
assert "grpc" not in sys.modules  # it is told before it is imported
from curator.system.tune_process import tune_process
tune_process()

import grpc
from curator.folder import initialise
from curator.rpc.server import RpcConfig, _bind

tls = initialise(Path(sys.argv[1])).tls
server = grpc.server(ThreadPoolExecutor(1))
config = RpcConfig(host="127.0.0.1", port=0, tls=tls, max_message_bytes=1, reflection=False)
port, _ = _bind(server, config)
server.start()
with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
    plain.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
    while plain.recv(4096):
        pass
server.stop(None).wait()
"""


def test_a_handshake_that_fails_leaves_no_line(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "weir")],
        check=False,
        cwd=ROOT,
        env=kept,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_steward_asked_for_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_VERBOSITY", "DEBUG")
    tune_process()
    assert os.environ["GRPC_VERBOSITY"] == "DEBUG"
