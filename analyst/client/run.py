"""One run: generated images in, released gradients out."""

from __future__ import annotations

import functools
import queue
import threading
from typing import final

import grpc
import torch
from torch import Tensor

from analyst.client.channel import Connection
from analyst.client.codec import decode_gradient, encode_step
from analyst.errors import CuratorUnreachable, StepLost, StepOutOfOrder
from protos.weir.v1 import release_pb2, run_pb2

_SECONDS = 60.0
_STEP_SECONDS = 180.0  # of one attempt; the answer to a repeated step is the same


@final
class Run:
    """An open run. The curator's ledger is the truth about the next step, never this object."""

    def __init__(self, connection: Connection, state: run_pb2.RunState, patience: float) -> None:
        """Start where the curator says.

        Args:
            connection: To the curator.
            state: As OpenRun or ResumeRun answered.
            patience: Seconds to keep trying when the curator is unreachable.
        """
        self._connection = connection
        self._patience = patience
        self._stream: _StepStream | None = None
        self.run_id = state.run_id
        self.dataset = state.dataset
        self.num_steps = state.num_steps
        self.next_step = state.next_step
        self.is_open = state.status == run_pb2.RUN_STATUS_OPEN
        self.close_reason = state.close_reason
        self.certificate = state.certificate
        self.spent_epsilon = state.budget.spent
        self.budget_epsilon = state.budget.epsilon

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the released gradient for the next step.

        A lost connection is retried with the same bytes and costs nothing more. If the curator
        restarted and counts the step as spent, the same images go out as its next step.

        Args:
            images: (N, channels, height, width) in [-1, 1].
            labels: (N), class numbers.

        Returns:
            Gradient of the objective with respect to `images`, same shape, type and device.

        Raises:
            RunClosed: If the declared steps are used.
            CuratorUnreachable: If nothing answers within the run's patience.
            RequestRefused: If the curator says that the batch is wrong.
            StepLost: If the curator contradicts itself about the next step.
            StepOutOfOrder: The same.
        """
        while True:
            request = encode_step(self.run_id, self.next_step, images, labels)
            try:
                response = self._connection.persist(
                    functools.partial(self._send, request), patience=self._patience
                )
            except (StepLost, StepOutOfOrder):
                if self._resume():
                    continue
                raise
            self.next_step = response.step + 1
            self.spent_epsilon = response.spent_epsilon
            self.budget_epsilon = response.budget_epsilon
            return decode_gradient(response, images)

    def backward(self, images: Tensor, labels: Tensor) -> None:
        """Pull the released gradient through the graph of `images`, as loss.backward() would.

        Args:
            images: Output of the generator, with its graph.
            labels: (N), class numbers.

        Raises:
            RunClosed: If the declared steps are used.
            CuratorUnreachable: If nothing answers within the run's patience.
            RequestRefused: If the curator says that the batch is wrong.
        """
        torch.autograd.backward([images], [self.gradient(images, labels)])

    def close(self) -> None:
        """End the run; what was not used goes back to the budget.

        Raises:
            CuratorUnreachable: If nothing answers within the run's patience.
        """
        self._drop_stream()
        state = self._connection.call(
            self._connection.stub.CloseRun,
            run_pb2.CloseRunRequest(run_id=self.run_id),
            seconds=_SECONDS,
            patience=self._patience,
        )
        self.is_open = False
        self.close_reason = state.close_reason
        self.certificate = state.certificate
        self.spent_epsilon = state.budget.spent

    def _send(self, request: release_pb2.StepRequest) -> release_pb2.StepResponse:
        if self._stream is None:
            self._stream = _StepStream(self._connection)
        try:
            return self._stream.ask(request, _STEP_SECONDS)
        except BaseException:
            self._drop_stream()
            raise

    def _drop_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _resume(self) -> bool:
        """Ask where the run stands; return whether the next step changed."""
        self._drop_stream()
        state = self._connection.call(
            self._connection.stub.ResumeRun,
            run_pb2.ResumeRunRequest(run_id=self.run_id),
            seconds=_SECONDS,
            patience=self._patience,
        )
        changed = state.next_step != self.next_step
        self.next_step = state.next_step
        return changed


@final
class _StepStream:
    """The long-lived bidirectional stream of one run, used one step at a time."""

    def __init__(self, connection: Connection) -> None:
        self._target = connection.target
        self._requests: queue.SimpleQueue[release_pb2.StepRequest | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[release_pb2.StepResponse | Exception] = queue.SimpleQueue()
        self._call = connection.stream_steps(iter(self._requests.get, None))
        threading.Thread(target=self._read, daemon=True, name="steps").start()

    def ask(self, request: release_pb2.StepRequest, seconds: float) -> release_pb2.StepResponse:
        """Send a step and wait for its answer.

        Args:
            request: The step.
            seconds: How long to wait.

        Returns:
            The answer.

        Raises:
            CuratorUnreachable: If no answer came, or the curator ended the stream.
            RpcError: As the curator refused.
        """
        self._requests.put(request)
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            msg = f"The curator at {self._target} did not answer within {seconds:g} seconds."
            raise CuratorUnreachable(msg, "Send the same step again.") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the stream."""
        self._requests.put(None)
        self._call.cancel()  # type: ignore[no-untyped-call]

    def _read(self) -> None:
        """Pass answers on, and at last why there are no more."""
        end: Exception = CuratorUnreachable(
            f"The curator at {self._target} ended the stream.", "Send the same step again."
        )
        try:
            for response in self._call:
                self._answers.put(response)
        except grpc.RpcError as error:
            end = error
        self._answers.put(end)
