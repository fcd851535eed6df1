"""The long-lived bidirectional stream of one run: steps go up, answers come down in order."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, final

import grpc

from analyst.errors import CuratorSilent, CuratorUnreachable
from protos.weir.v1 import release_pb2

_WATCH_SECONDS: Final = 1.0
_REMEDY: Final = "Send the same step again."


StepCall: TypeAlias = "grpc.CallIterator[release_pb2.StepResponse]"  # generic in the stubs only


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Asked:
    """An encoded step: all but the numbers of its rows, and those, little-endian."""

    message: release_pb2.StepRequest
    rows: bytes | memoryview  # of the caller's tensor, where that has them as they are sent

    def kept(self) -> Asked:
        """Return the same with rows of its own, for the time in which the tensor may change."""
        return Asked(message=self.message, rows=bytes(self.rows))

    def whole(self) -> release_pb2.StepRequest:
        """Return one message with all of it."""
        request = release_pb2.StepRequest()
        request.CopyFrom(self.message)
        place = request.features if request.HasField("features") else request.images
        place.data = bytes(self.rows)  # in place: a message that is given to another one is copied
        return request


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Answered:
    """An answer: its message, and the numbers of its blocks where they came beside it."""

    message: release_pb2.StepResponse
    numbers: memoryview | None = None


class Steps(Protocol):
    """A run's way for steps: they go up, answers come down in order."""

    @property
    def num_waiting(self) -> int:
        """How many steps were sent and not answered."""
        ...

    def send(self, asked: Asked) -> None:
        """Send a step without waiting for its answer."""
        ...

    def receive(self) -> Answered:
        """Wait for the answer to the oldest step that has none."""
        ...

    def close(self) -> None:
        """End the way; the run stays open."""
        ...


@final
class StepStream:
    """One open stream. Whoever asks also reads, so that an answer changes threads once."""

    def __init__(
        self,
        call: Callable[[Iterator[release_pb2.StepRequest]], StepCall],
        target: str,
        seconds: float,
        part_bytes: int,
    ) -> None:
        """Open the stream.

        Args:
            call: Opens a call of requests, which are taken by gRPC's own thread.
            target: Whom messages name.
            seconds: How long an answer may take.
            part_bytes: A larger request goes in pieces of so many bytes; 0 sends all whole.
        """
        self._part_bytes = part_bytes
        self._target = target
        self._seconds = seconds
        self._requests: queue.SimpleQueue[release_pb2.StepRequest | None] = queue.SimpleQueue()
        self._call = call(iter(self._requests.get, None))
        self.num_waiting = 0  # steps that were sent and not answered
        self._waits_since: float | None = None
        self._is_late = False
        threading.Thread(target=self._watch, daemon=True, name="steps").start()

    def send(self, asked: Asked) -> None:
        """Send a step without waiting for its answer."""
        self.num_waiting += 1
        for message in in_parts(asked.whole(), self._part_bytes):
            self._requests.put(message)

    def receive(self) -> Answered:
        """Wait for the answer to the oldest step that has none.

        Raises:
            CuratorSilent: If no answer came in time.
            CuratorUnreachable: If the curator ended the stream.
            RpcError: As the curator refused.
        """
        self._waits_since = time.monotonic()
        try:
            answer = next(iter(self._call), None)
        except grpc.RpcError:
            if self._is_late:
                msg = f"The curator at {self._target} did not answer in {self._seconds:g} seconds."
                raise CuratorSilent(msg, _REMEDY) from None
            raise
        finally:
            self._waits_since = None
        if answer is None:
            msg = f"The curator at {self._target} ended the stream."
            raise CuratorUnreachable(msg, _REMEDY)
        self.num_waiting -= 1
        return Answered(message=answer)

    def close(self) -> None:
        """End the stream."""
        self._requests.put(None)
        self._call.cancel()  # type: ignore[no-untyped-call]

    def _watch(self) -> None:
        """Cancel the call when somebody waits too long; reading has no deadline of its own."""
        while self._call.is_active():
            since = self._waits_since
            if since is not None and time.monotonic() - since > self._seconds:
                self._is_late = True
                self._call.cancel()  # type: ignore[no-untyped-call]
                return
            time.sleep(_WATCH_SECONDS)


def in_parts(
    request: release_pb2.StepRequest, part_bytes: int
) -> Iterator[release_pb2.StepRequest]:
    """Yield a request, or the pieces of one that is too large for one message.

    Args:
        request: As encoded for one step.
        part_bytes: Of the largest piece; 0 for a curator that takes all requests whole.
    """
    if not part_bytes or request.ByteSize() <= part_bytes:
        yield request
    else:
        yield from pieces(request.SerializeToString(), part_bytes)


def pieces(encoded: bytes, part_bytes: int) -> Iterator[release_pb2.StepRequest]:
    """Yield the pieces of an encoded request, each of so many bytes at most."""
    total = len(encoded)
    for start in range(0, total, part_bytes):
        data = encoded[start : start + part_bytes]
        yield release_pb2.StepRequest(part=release_pb2.Part(data=data, total_bytes=total))
