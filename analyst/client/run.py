"""One run: generated images in, released gradients out."""

from __future__ import annotations

import functools
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Final, Self, final

import torch
from torch import Tensor

from analyst.client import messages
from analyst.client.channel import Connection
from analyst.client.codec import check_graph, decode_gradient, encode_feature_step, encode_step
from analyst.client.stream import Answered, Asked, Steps
from analyst.errors import (
    RequestRefused,
    RunClosed,
    StepConflict,
    StepLost,
    StepOutOfOrder,
    StepsInterrupted,
)
from protos.weir.v1 import run_pb2


def _nothing() -> None:
    """Do nothing."""


@final
class InterruptedSteps:
    """Those of one run since its last answer."""

    def __init__(self) -> None:
        """Begin with none."""
        self._steps = range(0)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return len(self._steps) > 0

    def add(self, first: int, count: int) -> None:
        """Remember steps whose answers will not be read."""
        self._steps = range(self._steps.start if self else first, first + count)

    def settle(self, run_id: str, next_step: int) -> None:
        """Name those that the ledger counts, once, and forget them all."""
        counted = [str(step) for step in self._steps if step < next_step]
        self._steps = range(0)
        if counted:
            warnings.warn(
                f"run {run_id}: step {', '.join(counted)} was interrupted after it was sent; it is "
                f"charged and its answer was not read. The run goes on with step {next_step}.",
                StepsInterrupted,
                stacklevel=5,
            )


DEEPEST: Final = 16
"""As many steps may be on their way as a curator keeps answers for a stream that broke."""

_SECONDS = 60.0
_STEP_SECONDS = 180.0  # of one attempt; the answer to a repeated step is the same


@final
class Run:
    """An open run. The curator's ledger is the truth about the next step, never this object.

    As a context manager it closes the run at the end of the block, which gives back what was not
    used. An exception leaves the run open and notes what stays reserved.
    """

    def __init__(self, connection: Connection, state: run_pb2.RunState, patience: float) -> None:
        """Start where the curator says.

        Args:
            connection: To the curator.
            state: As OpenRun or ResumeRun answered.
            patience: Seconds to keep trying when the curator is unreachable.
        """
        self._connection = connection
        self._patience = patience
        self._stream: Steps | None = None
        self._interrupted = InterruptedSteps()
        self.while_waiting: Callable[[], None] = _nothing
        """Called when a step has been sent; it may not change what the step was made of."""
        self._ahead: deque[tuple[Tensor, Asked]] = deque()
        self._was_at = 0  # the next step before going back
        self.run_id = state.run_id
        self.dataset = state.dataset
        self.num_steps = state.num_steps
        self.next_step = state.next_step
        self.is_open = state.status == run_pb2.RUN_STATUS_OPEN
        self.close_reason = state.close_reason
        self.certificate = state.certificate
        self._part_bytes = state.part_bytes
        self.budget = messages.budget(state.budget)  # when the run was opened or resumed
        self.spent_epsilon = state.budget.spent
        self.budget_epsilon = state.budget.epsilon

    def __repr__(self) -> str:
        """Say where the run stands, as far as this object knows."""
        state = f"next step {self.next_step} of {self.num_steps}" if self.is_open else "closed"
        spent = f"epsilon {self.spent_epsilon:.4g} of {self.budget_epsilon:g} spent"
        return f"<Run {self.run_id} on {self.dataset!r}: {state}, {spent}>"

    def __enter__(self) -> Self:
        """Return the run."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the run after success; after an exception say what stays reserved."""
        if error is None:
            if self.is_open:
                self.close()
            return
        self.hang_up()
        if self.is_open and self.next_step <= self.num_steps:
            error.add_note(self._what_stays())

    def _what_stays(self) -> str:
        left = max(0, self.num_steps - self.next_step + 1)
        return (
            f"Run {self.run_id} on data set {self.dataset} is still open, and up to {left} of its "
            f"{self.num_steps} steps stay reserved. Go on with barrier.resume_run("
            f"{self.run_id!r}), or give them back with barrier.resume_run({self.run_id!r}).close()."
        )

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the released gradient for the next step.

        A lost connection is retried with the same bytes, so the tensors must not change before the
        answer, and costs nothing more. If the curator
        restarted and counts the step as spent, the same images go out as its next step. If an
        earlier call was interrupted (Ctrl-C, an exception) after its step was sent, other images go
        out as the step that the ledger names, and a `StepsInterrupted` warning names the lost one.

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
        request = encode_step(self.run_id, self.next_step, images, labels)
        return decode_gradient(self._first_answer([request]), images)

    def feature_gradient(self, features: Tensor, weights: bytes) -> Tensor:
        """Return the released gradient for the next step of a mechanism on features.

        It is retried like `gradient`.

        Args:
            features: (N, features) of public images; of a linear teacher the map, a row for each
                class.
            weights: Of the extractor that made them, or that the map is on, in the safetensors
                layout.

        Returns:
            Gradient of the objective with respect to `features`, same shape, type and device.

        Raises:
            RunClosed: If the declared steps are used.
            CuratorUnreachable: If nothing answers within the run's patience.
            RequestRefused: If the curator says that features or weights are wrong.
            StepLost: If the curator contradicts itself about the next step.
            StepOutOfOrder: The same.
        """
        request = encode_feature_step(self.run_id, self.next_step, features, weights)
        return decode_gradient(self._first_answer([request]), features)

    def votes(self, images: Tensor, labels: Tensor, num_candidates: int) -> Tensor:
        """Return the released votes for candidates, as the next step.

        It is retried like `gradient`.

        Args:
            images: (N, channels, height, width) in [-1, 1], as many of each candidate in a row.
            labels: (N), class numbers.
            num_candidates: How many there are.

        Returns:
            float64 counts (num_candidates), exact; noise makes them fractions, and some negative.

        Raises:
            RunClosed: If the declared steps are used.
            CuratorUnreachable: If nothing answers within the run's patience.
            RequestRefused: If the curator says that the images are wrong.
            StepLost: If the curator contradicts itself about the next step.
            StepOutOfOrder: The same.
        """
        request = encode_step(self.run_id, self.next_step, images, labels)
        counts = torch.empty(num_candidates, dtype=torch.float64)
        return decode_gradient(self._first_answer([request]), counts)

    def gradients(
        self, batches: Iterable[tuple[Tensor, Tensor]], *, depth: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Ask for the gradients of batches with several on their way, where round trips take long.

        With depth k a batch is made before the answers to the k - 1 batches before it have come, so
        its gradient meets weights that are up to k - 1 updates newer than those it was made with:
        another algorithm than `gradient` in a loop. To the curator it is the same: steps come in
        the ledger's order and each is charged once. After an error, what was on its way may be
        charged: go on with `Barrier.resume_run`.

        Args:
            batches: Images and labels as for `gradient`; each is taken as late as possible.
            depth: k from 1 to 16.

        Yields:
            The images as given, with their graph, and the released gradient, in order; until the
            batches or the declared steps end.

        Raises:
            ValueError: If `depth` is out of range.
        """
        if not 1 <= depth <= DEEPEST:
            msg = f"depth must be from 1 to {DEEPEST}"
            raise ValueError(msg)
        source = iter(batches)
        images: deque[Tensor] = deque()
        requests: deque[Asked] = deque()
        try:
            while True:
                while len(requests) < depth and self.next_step + len(requests) <= self.num_steps:
                    batch = next(source, None)
                    if batch is None:
                        break
                    images.append(batch[0])
                    step = self.next_step + len(requests)
                    requests.append(encode_step(self.run_id, step, *batch).kept())
                    self._put(requests)
                if not requests:
                    return
                answer = self._first_answer(requests)
                requests.popleft()
                yield images[0], decode_gradient(answer, images.popleft())
        finally:
            while requests and self._stream is not None:  # not wanted, but the ledger counts them
                self._first_answer(requests)
                requests.popleft()

    def first_gradient(self, batches: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Return the released gradient of the next step, with the steps after it on their way.

        Asked again with the same batches, or with those behind the first and new ones behind them,
        nothing is sent twice. It is retried like `gradient`; see `gradients` for what it means.

        Args:
            batches: Images and labels as for `gradient`, of the next steps in order, at most 16;
                the same tensor objects each time.

        Returns:
            Of the first batch, as `gradient` does.

        Raises:
            RunClosed: If the declared steps are used.
            CuratorUnreachable: If nothing answers within the run's patience.
            RequestRefused: If the curator says that a batch is wrong.
            StepLost: If the curator contradicts itself about the next step.
            StepOutOfOrder: The same.
        """
        given, ahead = [images for images, _ in batches], self._ahead
        fits = all(one is images for (one, _), images in zip(ahead, given, strict=False))
        is_next = not ahead or ahead[0][1].message.step == self.next_step
        if not (fits and is_next and len(ahead) <= len(given)):
            self.hang_up()
            ahead.clear()
        for place in range(len(ahead), len(batches)):
            request = encode_step(self.run_id, self.next_step + place, *batches[place]).kept()
            ahead.append((given[place], request))
        answer = self._first_answer([request for _, request in ahead])
        images, _ = ahead.popleft()
        return decode_gradient(answer, images)

    def go_back(self, step: int) -> None:
        """Ask next for an earlier step again, whose answer was not read.

        The very same question gets the very same answer, which costs nothing more, as long as the
        curator keeps it; if it does not, or if the question is another one now, the run goes on
        with the step that the ledger names.

        Args:
            step: From 1; one that lies ahead is left to its turn.
        """
        self._was_at = max(self._was_at, self.next_step)
        self.next_step = min(step, self.next_step)

    def backward(self, images: Tensor, labels: Tensor) -> None:
        """Pull the released gradient through the graph of `images`, as loss.backward() would.

        Args:
            images: Output of the generator, with its graph.
            labels: (N), class numbers.

        Raises:
            BadBatch: If the images have no graph; nothing was sent.
            RunClosed: If the declared steps are used.
            CuratorUnreachable: If nothing answers within the run's patience.
            RequestRefused: If the curator says that the batch is wrong.
        """
        check_graph(images)
        torch.autograd.backward([images], [self.gradient(images, labels)])

    def close(self) -> None:
        """End the run; what was not used goes back to the budget.

        Raises:
            CuratorUnreachable: If nothing answers within the run's patience.
        """
        self.hang_up()
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

    def hang_up(self) -> None:
        """End the stream of this run; the run stays open, and its next step opens another."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _first_answer(self, requests: Sequence[Asked]) -> Answered:
        """Return the answer to the first of the requests that are on their way.

        Raises:
            StepConflict: If another program sent the step with different images.
            StepLost: If the curator contradicts itself about the next step.
            StepOutOfOrder: The same.
            RequestRefused: As the curator refused otherwise.
        """
        while True:
            try:
                answered = self._connection.persist(
                    functools.partial(self._exchange, requests), patience=self._patience
                )
            except (StepLost, StepOutOfOrder, StepConflict) as refused:
                is_known = (
                    bool(self._interrupted)
                    or self._is_back
                    or not isinstance(refused, StepConflict)
                )
                if not (is_known and self._resume_into(requests)):
                    raise
                continue
            except RequestRefused as refused:
                self._leave_the_past(refused)
                raise
            except BaseException:  # whatever it was, the steps may be charged
                self._interrupted.add(self.next_step, len(requests))
                raise
            self._interrupted.settle(self.run_id, self.next_step)
            self.next_step = answered.message.step + 1
            self.spent_epsilon = answered.message.spent_epsilon
            self.budget_epsilon = answered.message.budget_epsilon
            if self.next_step > self.num_steps:  # an open stream counts as an open call
                self.hang_up()
            return answered

    def _exchange(self, requests: Sequence[Asked]) -> Answered:
        """Send what this stream has not seen yet, and wait for the answer to the first."""
        try:
            steps = self._put(requests)
            self.while_waiting()
            return steps.receive()
        except BaseException:
            self.hang_up()
            raise

    def _put(self, requests: Sequence[Asked]) -> Steps:
        if self._stream is None:
            self._stream = self._connection.open_steps(_STEP_SECONDS, self._part_bytes)
        for place in range(self._stream.num_waiting, len(requests)):
            self._stream.send(requests[place])
        return self._stream

    @property
    def _is_back(self) -> bool:
        """Whether the next step is one that was asked before, by this program or an earlier one."""
        return self.next_step < self._was_at

    def _leave_the_past(self, refused: RequestRefused) -> None:
        """Go on where the ledger is, if a closed run keeps the step no longer that is asked again.

        Args:
            refused: How it was refused.
        """
        if self._is_back and isinstance(refused, RunClosed):
            self._resume()

    def _resume_into(self, requests: Sequence[Asked]) -> bool:
        """Ask where the run stands and number the requests anew; return whether that changed."""
        changed = self._resume()
        for place, request in enumerate(requests):
            request.message.step = self.next_step + place
        return changed

    def _resume(self) -> bool:
        """Ask where the run stands; return whether the next step changed."""
        self.hang_up()
        state = self._connection.call(
            self._connection.stub.ResumeRun,
            run_pb2.ResumeRunRequest(run_id=self.run_id),
            seconds=_SECONDS,
            patience=self._patience,
        )
        changed = state.next_step != self.next_step
        self.next_step = state.next_step
        self._was_at = 0
        return changed
