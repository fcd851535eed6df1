"""The same step over every way at once: identical bytes, one charge."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
import torch

from analyst.client.codec import encode_step
from analyst.client.run import Run
from analyst.client.stream import Answered
from analyst.errors import RequestRefused
from protos.weir.v1 import release_pb2, service_pb2_grpc
from protos.weir.v1.refusal_pb2 import Refusal
from tests.e2e.conftest import (
    OVER_BOTH_WIRES,
    SINKHORN,
    Local,
    Process,
    batch,
    digits_folder,
    token,
)

pytestmark = [pytest.mark.e2e, OVER_BOTH_WIRES]


@pytest.fixture
def stub(local: Local):  # type: ignore[no-untyped-def]
    root = (local.folder.identity / "ca.pem").read_bytes()
    target = f"localhost:{local.curator.rpc.port}"
    with grpc.secure_channel(target, grpc.ssl_channel_credentials(root)) as channel:
        yield service_pb2_grpc.WeirServiceStub(channel)


def test_a_hundred_twins_over_all_doors(
    local: Local, stub: service_pb2_grpc.WeirServiceStub
) -> None:
    metadata = (("authorization", f"Bearer {token(local.folder, 'alice')}"),)
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=50)
    asked = encode_step(run.run_id, 1, *batch())
    request = asked.whole()

    def unary(_: int) -> bytes:
        return stub.Step(request, metadata=metadata, timeout=60).SerializeToString()

    def stream(_: int) -> bytes:
        call = stub.StreamSteps(iter([request]), metadata=metadata, timeout=60)
        return next(iter(call)).SerializeToString()

    def over_the_wire(_: int) -> bytes:
        with local.connect() as barrier, closing(barrier._connection.open_steps(60, 0)) as steps:
            steps.send(asked)
            return whole(steps.receive()).SerializeToString()

    with ThreadPoolExecutor(16) as pool:
        jobs = [pool.submit((unary, stream, over_the_wire)[i % 3], i) for i in range(100)]
        answers = {job.result() for job in jobs}
    assert len(answers) == 1
    with local.connect() as barrier:
        assert barrier.resume_run(run.run_id).next_step == 2


def whole(answered: Answered) -> release_pb2.StepResponse:
    """Return an answer as gRPC would have brought it."""
    message, numbers = answered.message, answered.numbers
    if numbers is not None:
        for block in message.gradient:
            size = 4 * math.prod(block.values.shape)
            block.values.data, numbers = bytes(numbers[:size]), numbers[size:]
        assert not numbers
    return message


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_other_images_and_other_analysts_get_nothing(local: Local, name: str) -> None:
    with local.connect("alice") as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)
        run.gradient(*batch())
    with local.connect(name) as barrier:
        if name == "alice":
            again = barrier.resume_run(run.run_id)
            again.next_step = 1
            with pytest.raises(RequestRefused) as caught:
                again.gradient(batch()[0] * 0.5, torch.arange(12) % 10)
            assert caught.value.reason == "STEP_CONFLICT"
        else:
            with pytest.raises(RequestRefused) as caught:
                barrier.resume_run(run.run_id)
            assert caught.value.reason == "UNKNOWN_RUN"


def test_the_replay_matrix(tmp_path: Path, serve: Callable[..., Process]) -> None:
    """The same step after a reconnect, with other images, by others, and after a restart."""
    folder = digits_folder(tmp_path / "curator")
    first = serve(folder)
    images, labels = batch()
    with first.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=50)
        before = run.gradient(images, labels)
        spent = barrier.budget("digits").spent
    with first.connect() as barrier:  # a new connection
        again = barrier.resume_run(run.run_id)
        again.next_step = 1
        assert again.gradient(images, labels).equal(before)
        again.next_step = 1
        assert refusal(again, images * 0.5, labels) == "STEP_CONFLICT"
        again.next_step = 7
        assert refusal(again, images, labels) == "STEP_OUT_OF_ORDER"
        assert barrier.budget("digits").spent == spent
    with first.connect("bob") as other:
        again._connection = other._connection
        again.next_step = 1
        assert refusal(again, images, labels) == "UNKNOWN_RUN"
    first.kill()
    with serve(folder).connect() as barrier:
        again = barrier.resume_run(run.run_id)
        after = again.next_step
        assert after > 1
        again.next_step = 1
        assert refusal(again, images, labels) == "STEP_LOST"
        again.next_step = after
        assert not again.gradient(images, labels).equal(before)
        assert barrier.budget("digits").spent > spent


def refusal(run: Run, images: torch.Tensor, labels: torch.Tensor) -> str:
    """Ask the run's connection for one step without the client's own recovery."""
    request = encode_step(run.run_id, run.next_step, images, labels)
    with closing(run._connection.open_steps(60, 0)) as steps:
        steps.send(request)
        with pytest.raises(grpc.RpcError) as caught:
            steps.receive()
    trailing: Any = cast("grpc.Call", caught.value).trailing_metadata()
    return Refusal.FromString(dict(trailing)["weir-refusal-bin"]).reason
