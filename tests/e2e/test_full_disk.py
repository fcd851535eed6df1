"""A curator whose disk fails it: what is not sure is not answered, health says so, it recovers."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from analyst.errors import CuratorUnreachable
from tests.e2e.conftest import OVER_BOTH_WIRES, SINKHORN, Process, batch, digits_folder

pytestmark = [pytest.mark.e2e, OVER_BOTH_WIRES]

SERVING = health_pb2.HealthCheckResponse.SERVING
LESS_THAN_A_PAGE = 4096  # with its header in the log of writes
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def health_becomes(process: Process, wanted: int, seconds: float = 20.0) -> bool:
    authority = (process.folder.identity / "ca.pem").read_bytes()
    credentials = grpc.ssl_channel_credentials(authority)
    until = time.monotonic() + seconds
    with grpc.secure_channel(f"localhost:{process.grpc_port}", credentials) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        while time.monotonic() < until:
            if stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status == wanted:
                return True
            time.sleep(0.2)
    return False


def test_a_disk_that_fills_up_stops_every_answer_until_there_is_room(
    tmp_path: Path, serve: Callable[..., Process]
) -> None:
    process = serve(digits_folder(tmp_path / "curator"))
    images, labels = batch()
    with process.connect(patience=1.0) as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=500)
        run.gradient(images, labels)
        assert health_becomes(process, SERVING)
        pid = process.process.pid
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (LESS_THAN_A_PAGE, resource.RLIM_INFINITY))
        received = 1
        while received < 400:
            try:
                run.gradient(images, labels)
            except CuratorUnreachable:
                break
            received += 1
        assert health_becomes(process, NOT_SERVING)
        spent = barrier.budget("digits").spent  # reading still works
        assert received <= 8  # the block that was charged before
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert health_becomes(process, SERVING)
        again = barrier.resume_run(run.run_id)
        again.gradient(images, labels)
        assert barrier.budget("digits").spent >= spent
    assert process.terminate() == 0


def test_a_table_of_callers_that_is_cut_ends_nobody_s_call(
    tmp_path: Path, serve: Callable[..., Process]
) -> None:
    process = serve(digits_folder(tmp_path / "curator"))
    images, labels = batch()
    callers = process.folder.identity / "callers.json"
    whole = callers.read_bytes()
    with process.connect(patience=1.0) as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=50)
        callers.write_bytes(whole[:-30])
        assert health_becomes(process, NOT_SERVING)
        run.gradient(images, labels)
        assert barrier.budget("digits").spent > 0
    with process.connect(patience=1.0) as barrier:  # also of a new connection
        assert barrier.resume_run(run.run_id).next_step == 2
    callers.write_bytes(whole)
    assert health_becomes(process, SERVING)
    assert process.terminate() == 0
