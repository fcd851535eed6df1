"""A run whose steps are interrupted, used as a context manager, or shown."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import grpc
import numpy as np
import pytest
import torch

from analyst.client import messages
from analyst.client.barrier import Barrier
from analyst.client.channel import Connection
from analyst.client.codec import encode_step
from analyst.client.retry import persist
from analyst.client.run import Run
from analyst.client.stream import StepStream
from analyst.errors import (
    BadBatch,
    BarrierClosed,
    CuratorUnreachable,
    RequestRefused,
    RunClosed,
    StepConflict,
    StepLost,
    StepsInterrupted,
)
from analyst.facts import DatasetFacts
from protos.weir.v1 import release_pb2, run_pb2, tensor_pb2

LABELS = torch.zeros(2, dtype=torch.long)


class Refusal(grpc.RpcError):
    """As a curator refuses, with its details in the trailing metadata."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class FakeConnection:
    """A curator that counts a step when it arrives, and may be interrupted before it answers."""

    target = "curator:1"

    def __init__(self) -> None:
        self.used = 0
        self.asked: dict[int, bytes] = {}
        self.is_closed = False
        self.num_streams = 0
        self.before_answer: Callable[[], None] = lambda: None
        self.stub = SimpleNamespace(ResumeRun=self._resume, CloseRun=self._close)

    def call(self, method: Callable[[Any], Any], request: Any, **_: Any) -> Any:
        return method(request)

    def persist(self, attempt: Callable[[], Any], *, patience: float) -> Any:
        return persist(attempt, target=self.target, patience=patience)

    def _resume(self, _: Any) -> run_pb2.RunState:
        return self.state()

    def _close(self, _: Any) -> run_pb2.RunState:
        state = self.state()
        state.status = run_pb2.RUN_STATUS_CLOSED
        state.close_reason = "closed by the analyst"
        return state

    def state(self) -> run_pb2.RunState:
        state = run_pb2.RunState(
            run_id="r1", dataset="digits", num_steps=9, next_step=self.used + 1
        )
        state.status = run_pb2.RUN_STATUS_OPEN
        state.budget.epsilon = 10
        return state

    def open_steps(self, seconds: float, part_bytes: int) -> StepStream:
        self.num_streams += 1
        return StepStream(
            lambda requests: cast("Any", FakeCall(self, requests)), self.target, seconds, part_bytes
        )

    def answer(self, request: release_pb2.StepRequest) -> release_pb2.StepResponse:
        if self.asked.setdefault(request.step, request.images.data) != request.images.data:
            raise StepConflict("STEP_CONFLICT", "asked with other images")
        self.used = max(self.used, request.step)
        self.before_answer()
        zeros = np.zeros(request.images.shape, dtype="<i4")
        block = release_pb2.GradientBlock(
            values=tensor_pb2.Tensor(
                data_type=tensor_pb2.DATA_TYPE_INT32, shape=zeros.shape, data=zeros.tobytes()
            ),
            grid=1.0,
        )
        return release_pb2.StepResponse(step=request.step, gradient=[block])


class FakeCall:
    def __init__(self, connection: FakeConnection, requests: Any) -> None:
        self._connection, self._requests = connection, requests

    def __iter__(self) -> FakeCall:
        return self

    def __next__(self) -> release_pb2.StepResponse:
        return self._connection.answer(next(self._requests))

    def is_active(self) -> bool:
        return False

    def cancel(self) -> None:
        return None


def new_run(patience: float = 0.0) -> tuple[FakeConnection, Run]:
    connection = FakeConnection()
    run = Run(connection, connection.state(), patience)  # type: ignore[arg-type]
    return connection, run


def batch(value: float) -> torch.Tensor:
    return torch.full((2, 1, 3, 3), value)


def interrupt(kind: type[BaseException], num_arguments: int = 0) -> Callable[..., None]:
    def now(*arguments: object) -> None:
        assert len(arguments) >= num_arguments
        raise kind

    return now


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError, CuratorUnreachable])
def test_after_an_interruption_the_run_goes_on_and_names_the_lost_step(
    kind: type[BaseException],
) -> None:
    connection, run = new_run()
    run.gradient(batch(0.1), LABELS)
    failure = kind("gone") if kind is CuratorUnreachable else kind()

    def fail() -> None:
        raise failure

    connection.before_answer = fail
    with pytest.raises(kind):
        run.gradient(batch(0.2), LABELS)
    connection.before_answer = lambda: None
    with pytest.warns(StepsInterrupted, match="step 2 was interrupted.*goes on with step 3"):
        run.gradient(batch(0.3), LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.gradient(batch(0.4), LABELS)
    assert (run.next_step, connection.used) == (5, 4)


def test_an_interruption_while_a_step_is_queued_leaves_no_stream_that_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection, run = new_run()
    run.gradient(batch(0.1), LABELS)
    with monkeypatch.context() as patched:
        patched.setattr("analyst.client.stream.StepStream.send", interrupt(KeyboardInterrupt, 1))
        with pytest.raises(KeyboardInterrupt):
            run.gradient(batch(0.2), LABELS)
    run.gradient(batch(0.3), LABELS)  # on a new stream: the old one may count a step as sent
    assert (run.next_step, connection.used) == (3, 2)
    assert connection.num_streams == 2


def test_what_is_to_be_done_meanwhile_is_done_between_question_and_answer() -> None:
    connection, run = new_run()
    order: list[str] = []
    connection.before_answer = lambda: order.append("answer")
    run.while_waiting = lambda: order.append(f"meanwhile, {run._stream.num_waiting} sent")  # type: ignore[union-attr]
    run.gradient(batch(0.1), LABELS)
    assert order == ["meanwhile, 1 sent", "answer"]


def test_batches_on_their_way_stay_as_they_were_sent() -> None:
    """Their tensors may be written to before an answer comes, and the step be sent once more."""
    connection, run = new_run()
    images = batch(0.0)

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for value in range(4):
            images.fill_(value / 10)
            yield images, LABELS

    steps = run.gradients(batches(), depth=2)
    next(steps)
    run.hang_up()  # both are asked again
    assert len([*steps]) == 3
    sent = {step: np.frombuffer(data, "<f4")[0] for step, data in connection.asked.items()}
    assert sent == {step: np.float32((step - 1) / 10) for step in range(1, 5)}


def test_images_without_a_graph_are_not_sent() -> None:
    connection, run = new_run()
    with pytest.raises(BadBatch, match="without detach"):
        run.backward(batch(0.1), LABELS)
    assert connection.used == 0


def test_a_block_that_asks_for_too_much_is_told_of_nothing_reserved() -> None:
    _, run = new_run()
    run.next_step = 10

    def loop() -> None:
        with run:
            raise ValueError("over")

    with pytest.raises(ValueError, match="over") as caught:
        loop()
    assert not hasattr(caught.value, "__notes__")


def test_the_same_images_after_an_interruption_cost_nothing_more() -> None:
    connection, run = new_run()
    connection.before_answer = interrupt(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        run.gradient(batch(0.2), LABELS)
    connection.before_answer = lambda: None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.gradient(batch(0.2), LABELS)
    assert (run.next_step, connection.used) == (2, 1)


def test_a_step_that_somebody_else_took_is_still_a_conflict() -> None:
    connection, run = new_run()
    connection.asked[1] = b"another program's"
    with pytest.raises(StepConflict):
        run.gradient(batch(0.2), LABELS)


def test_a_block_that_ends_well_closes_the_run() -> None:
    _, run = new_run()
    with run:
        run.gradient(batch(0.1), LABELS)
    assert not run.is_open
    assert run.close_reason == "closed by the analyst"


def test_an_exception_in_the_block_says_what_stays_reserved() -> None:
    _, run = new_run()

    def loop() -> None:
        with run:
            run.gradient(batch(0.1), LABELS)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        loop()
    (note,) = caught.value.__notes__
    assert "up to 8 of its 9 steps stay reserved" in note
    assert "barrier.resume_run('r1').close()" in note
    assert run.is_open


def test_what_is_shown_is_short() -> None:
    _, run = new_run()
    assert repr(run) == "<Run r1 on 'digits': next step 1 of 9, epsilon 0 of 10 spent>"
    facts = DatasetFacts(
        name="digits", channels=1, height=8, width=8, classes=("even", "odd"), nominal_size=1797,
        capacity=64, epsilon=10.0, delta=1e-5, sampling_rate=0.02, adjacency="add or remove",
        unit="record", mechanisms=("dp-swd",), parameter_schemas={}, max_samples=64,
    )  # fmt: skip
    told = "<DatasetFacts digits: 1,797 images of 1x8x8 in 2 classes, epsilon 10 at delta 1e-05>"
    assert repr(facts) == told


def test_a_closed_barrier_says_so() -> None:
    barrier = Barrier(Connection("localhost:1", None, insecure_loopback=True), patience=0)
    assert repr(barrier) == "<Barrier localhost:1>"
    barrier.close()
    assert repr(barrier) == "<Barrier localhost:1, closed>"
    with pytest.raises(BarrierClosed, match="Connect again"):
        barrier.budget("digits")


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (batch(0.0), None, "also by a generator that knows no classes"),
        (batch(0.0), LABELS.float(), r"labels are torch.float32.*labels.long\(\)"),
        (batch(0.0), LABELS.numpy(), r"not ndarray. Take torch.as_tensor\(labels\)"),
        (batch(0.0).numpy(), LABELS, r"images must be a torch tensor, not ndarray"),
        (batch(0.0).long(), LABELS, "images are torch.int64"),
        (batch(0.0)[0], LABELS, r"of shape \(1, 3, 3\)"),
        (batch(0.0), LABELS[:1], r"2 images came with labels of shape \(1,\)"),
        (batch(0.0), torch.zeros(2, 10), "labels are torch.float32"),
    ],
)
def test_batches_that_cannot_be_sent_are_told_in_words(
    images: Any, labels: Any, words: str
) -> None:
    with pytest.raises(BadBatch, match=words):
        encode_step("r1", 1, images, labels)


def test_facts_are_short_to_look_at() -> None:
    from protos.weir.v1 import dataset_pb2

    message = dataset_pb2.DatasetFacts(dataset="digits")
    schema = json.dumps({"description": "x" * 5000})
    message.mechanisms.add(mechanism="dp-sinkhorn", parameters_schema=schema)
    assert len(repr(messages.dataset_facts(message))) < 600


class TestGoingBack:
    """An answer that was not read is asked for again with the very same question."""

    def test_a_kept_answer_is_had_again_and_the_run_goes_on_after_it(self) -> None:
        connection, run = new_run()
        for value in (0.1, 0.2, 0.2):
            run.gradient(batch(value), LABELS)
        run.go_back(2)
        assert run.next_step == 2
        run.gradient(batch(0.2), LABELS)
        assert (run.next_step, connection.used) == (3, 3)  # nothing more was charged
        run.go_back(9)
        assert run.next_step == 3

    @pytest.mark.parametrize("kind", [StepLost, RunClosed])
    def test_where_it_is_kept_no_longer_the_ledger_says_what_is_next(
        self, kind: type[RequestRefused]
    ) -> None:
        connection, run = new_run()
        run.num_steps = 2
        for value in (0.1, 0.2):
            run.gradient(batch(value), LABELS)
        told: list[int] = []

        def refuse(request: release_pb2.StepRequest) -> release_pb2.StepResponse:
            told.append(request.step)
            refusal = RunClosed if request.step > connection.used else kind
            raise refusal("GONE", "no answer is kept", remedy="go on")

        connection.answer = refuse  # type: ignore[method-assign]
        run.go_back(1)
        with pytest.raises(RunClosed):
            run.gradient(batch(0.1), LABELS)
        assert run.next_step == 3
        assert told == ([1] if kind is RunClosed else [1, 3])
