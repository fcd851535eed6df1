"""The long-lived bidirectional stream of one run: steps go up, answers come down in order."""

from __future__ import annotations

import queue
import threading
import time
from typing import Final, final

import grpc

from analyst.client.channel import Connection
from analyst.errors import CuratorSilent, CuratorUnreachable
from protos.weir.v1 import release_pb2

_WATCH_SECONDS: Final = 1.0
_REMEDY: Final = "Send the same step again."


@final
class StepStream:
    """One open stream. Whoever asks also reads, so that an answer changes threads once."""

    def __init__(self, connection: Connection, seconds: float) -> None:
        """Open the stream.

        Args:
            connection: To the curator.
            seconds: How long an answer may take.
        """
        self._target = connection.target
        self._seconds = seconds
        self._requests: queue.SimpleQueue[release_pb2.StepRequest | None] = queue.SimpleQueue()
        self._call = connection.stream_steps(iter(self._requests.get, None))
        self.num_waiting = 0  # steps that were sent and not answered
        self._waits_since: float | None = None
        self._is_late = False
        threading.Thread(target=self._watch, daemon=True, name="steps").start()

    def send(self, request: release_pb2.StepRequest) -> None:
        """Send a step without waiting for its answer.

        Args:
            request: The step.
        """
        self.num_waiting += 1
        self._requests.put(request)

    def receive(self) -> release_pb2.StepResponse:
        """Wait for the answer to the oldest step that has none.

        Returns:
            The answer.

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
        return answer

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
