"""Steps over a raw Unix socket, for analysts on this machine, where gRPC takes most of the time.

It is another wire and nothing else. Each connection is one `StreamSteps` call, and goes through the
shield and the servicer as a call of gRPC does: the same token, permissions, bounds, claims, charges
and words. Everything but steps is asked over gRPC.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Self, cast, final

import grpc

from curator.identity.listen import PortUnavailable
from curator.rpc import codec
from curator.rpc.call_limits import CallDeadlines
from curator.rpc.local_call import CallAborted, CallGone, LocalCall, Rows
from curator.rpc.messages import AnyStep, StepWithRows
from curator.rpc.servicer import WeirServicer
from curator.rpc.shield import STEPS, Behaviour, Shield
from curator.rpc.unix_socket import (
    LONGEST_PATH,
    SocketPlace,
    bind_unix_socket,
    remove_unix_socket,
)
from curator.service.live_run import Answer
from protos.weir.v1 import release_pb2

_ENDING: Final = ".steps"
_BEGIN_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.1  # where no connection can be taken just now
_BACKLOG: Final = 64
_PEER: Final = Struct("3i")  # process, user, group


def steps_place(place: SocketPlace) -> SocketPlace:
    """Return where steps are served beside the socket of gRPC."""
    path = place.path.with_name(f"{place.path.name}{_ENDING}")
    return SocketPlace(path=path, user=place.user)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class _Details(grpc.HandlerCallDetails):
    """What gRPC tells an interceptor of a call."""

    method: str
    invocation_metadata: Any


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StepCalls:
    """How one connection becomes a call."""

    shield: Shield
    servicer: WeirServicer
    patience: CallDeadlines
    largest_message: int

    def answer(self, connection: socket.socket) -> None:
        """Answer the steps of one connection until either side ends it."""
        call = LocalCall(connection, self.largest_message)
        context = cast("grpc.ServicerContext", call)  # all that is used of one
        try:
            with self.patience.waiting(context, _BEGIN_SECONDS):
                metadata = call.metadata()
            details = _Details(method=STEPS, invocation_metadata=tuple(metadata.items()))
            answers = self._shielded(details, call)(call.messages(), context)
            with closing(answers):
                for answer in answers:
                    call.answer(answer)
                    del answer
            call.end()
        except (CallGone, CallAborted):
            return

    def _shielded(self, details: _Details, call: LocalCall) -> Behaviour:
        """Return what the shield makes of the servicer's steps, as it does for gRPC."""

        def encoded(steps: Iterator[AnyStep], context: grpc.ServicerContext) -> Iterator[Any]:
            for run_id, answer in self.servicer.answers(steps, context):
                yield _encoded(run_id, answer, with_rows=call.came_with_rows)
                del answer

        steps = grpc.stream_stream_rpc_method_handler(encoded, _parsed)
        shielded: Any = self.shield.intercept_service(lambda _: steps, details)
        return cast("Behaviour", shielded.stream_stream)


def _parsed(data: memoryview | Rows) -> AnyStep:
    """Return the step that a frame is; one that is none is protobuf's own error."""
    if not isinstance(data, Rows):
        return release_pb2.StepRequest.FromString(data)  # type: ignore[arg-type]  # any buffer will do; the stubs do not know
    (rows,) = data.numbers
    message = release_pb2.StepRequest.FromString(data.message)  # type: ignore[arg-type]  # as above
    return StepWithRows(message=message, rows=rows)


def _encoded(run_id: str, answer: Answer, *, with_rows: bool) -> bytes | Rows:
    """Return the frame of an answer, in the form of its question."""
    if not with_rows:
        return codec.encode_answer(run_id, answer).SerializeToString()
    numbers: list[memoryview] = []
    message = codec.encode_answer(run_id, answer, numbers)
    return Rows.of(numbers, message.SerializeToString())


@final
class LocalServer:
    """A listening socket and a thread for each connection, as gRPC has one for each stream."""

    def __init__(self, place: SocketPlace, calls: StepCalls, most: int) -> None:
        """Bind the socket; nobody is answered yet.

        Args:
            place: Where, and who else may open it.
            calls: What answers.
            most: Connections at once; one more is closed, never queued behind the others.

        Raises:
            PortUnavailable: If the path cannot be bound.
        """
        self._place = place
        self._calls = calls
        self._listener = socket.socket(socket.AF_UNIX)
        self._places = threading.BoundedSemaphore(most)
        self._open: dict[threading.Thread, socket.socket] = {}
        self._is_stopping = False
        longest = LONGEST_PATH + len(_ENDING)  # the operating system takes one byte more
        try:
            bind_unix_socket(place, lambda path: self._listener.bind(str(path)), longest)
        except PortUnavailable:
            self._listener.close()
            raise

    @classmethod
    def where_peers_are_told(cls, place: SocketPlace, calls: StepCalls, most: int) -> Self | None:
        """Return a server; None on an operating system that does not tell who opens a socket."""
        return cls(place, calls, most) if hasattr(socket, "SO_PEERCRED") else None

    def start(self) -> None:
        """Begin to answer."""
        self._listener.listen(_BACKLOG)
        threading.Thread(target=self._accept, daemon=True, name="local").start()

    def stop(self) -> None:
        """Take no more connections; those that there are go on."""
        self._is_stopping = True
        with suppress(OSError):  # it was never started
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        remove_unix_socket(self._place.path)

    def wait(self, seconds: float) -> None:
        """Wait for open calls, and end those that are not over in time.

        Args:
            seconds: At most.
        """
        until = time.monotonic() + seconds
        for thread in list(self._open):
            thread.join(max(0.0, until - time.monotonic()))
        for connection in list(self._open.values()):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._is_stopping:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # stopping, or no file is left for another connection
                time.sleep(_PAUSE_SECONDS)
                continue
            self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        """Let a permitted peer have a thread, if one is free."""
        if not self._is_permitted(connection) or not self._places.acquire(blocking=False):
            connection.close()
            return
        thread = threading.Thread(target=self._serve, args=(connection,), daemon=True, name="steps")
        self._open[thread] = connection
        try:
            thread.start()
        except RuntimeError:  # the machine has no more threads
            self._leave(thread, connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._calls.answer(connection)
        finally:
            self._leave(threading.current_thread(), connection)

    def _leave(self, thread: threading.Thread, connection: socket.socket) -> None:
        self._open.pop(thread, None)
        connection.close()
        self._places.release()

    def _is_permitted(self, connection: socket.socket) -> bool:
        """Return whether the kernel says that the peer's process is of a permitted user."""
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        return _PEER.unpack(told)[1] in {os.getuid(), self._place.user}
