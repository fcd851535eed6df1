"""Around every call: who asks, whether they may, one log line, and no exception text to the client.

gRPC for Python sends the text of an uncaught exception to the client, on unary calls and streams
alike. Here only `CuratorError`s speak, in constant words; anything else becomes one opaque error.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias, cast, final

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from curator.errors import CuratorError, MalformedRequest, NotPermitted
from curator.rpc.call_limits import CallDeadlines, OpenCalls, Room
from curator.rpc.details import DETAILS_KEY, encode_details
from curator.rpc.identity import (
    OPEN_METHODS,
    PERMISSIONS,
    Authenticator,
    Credentials,
    require_permission,
)
from curator.rpc.messages import Messages, Parts, seconds_for
from curator.rpc.status import REFUSAL_KEY, encode_refusal, status_code, status_text
from curator.service.caller import Caller
from curator.service.fair_turns import FairTurns, working_for
from curator.telemetry.counts import OTHER
from curator.telemetry.requests import FinishedRequest, Telemetry

_logger = logging.getLogger(__name__)
_MESSAGE_SECONDS = 120.0  # for the one message of a unary call
_IDLE_SECONDS = 900.0  # between two messages of a stream
STEPS: Final = "/weir.v1.WeirService/StreamSteps"
"""The stream of steps, which may also come over another wire."""

_TAKES_LONG = frozenset({f"/weir.v1.WeirService/{name}" for name in ("Step", "OpenRun")})
_NOT_REFUSED = frozenset({"OK", "CANCELLED"})

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in the stubs only
Details = grpc.HandlerCallDetails
Behaviour = Callable[..., Any]
Metadata = dict[str, str | bytes]


def caller_of(context: grpc.ServicerContext) -> Caller:
    """Return who the shield found for this call."""
    caller: Caller = context.weir_caller  # type: ignore[attr-defined]
    return caller


@final
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Bounds:
    """What callers together may take."""

    calls: OpenCalls
    patience: CallDeadlines
    room: Room
    most_request_bytes: int


@final
class Shield(grpc.ServerInterceptor):  # type: ignore[type-arg]
    """Authenticates every call and converts every exception."""

    def __init__(
        self,
        authenticator: Authenticator,
        bounds: Bounds,
        telemetry: Telemetry,
        desk: FairTurns,
    ) -> None:
        """Take who may call, the bounds of calls, what counts them, and the turns they wait for."""
        self._authenticator = authenticator
        self._bounds = bounds
        self._telemetry = telemetry
        self._desk = desk

    def intercept_service(
        self, continuation: Callable[[Details], Handler | None], handler_call_details: Details
    ) -> Handler | None:
        """Wrap the method as one from an iterator of raw messages to answers, unary ones too.

        A unary handler runs only when its message has come, in a worker that waits for it, and
        its answer waits in gRPC's memory for whoever does not take it. A handler of iterators runs
        at once and is told when an answer was taken, so here nobody is waited for who is not
        known, permitted and counted. On the wire they are the same.
        """
        method = str(handler_call_details.method)
        handler = continuation(handler_call_details)
        if method in OPEN_METHODS:
            return _answering_at_once(handler)
        metadata = dict(handler_call_details.invocation_metadata)
        return grpc.stream_stream_rpc_method_handler(
            self._guarded(handler, method, metadata),
            None,
            None if handler is None else handler.response_serializer,
        )

    def _guarded(self, handler: Handler | None, method: str, metadata: Metadata) -> Behaviour:
        def guarded(raw: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
            with self._admitting(context, method, metadata) as messages:
                if handler is None:  # listed, and not served by this curator
                    raise NotPermitted
                answers = self._streamed if handler.request_streaming else self._answered
                for answer in answers(handler, method, messages, raw, context):
                    with self._bounds.patience.waiting(context, seconds_for(_size(answer))):
                        yield answer
                    del answer  # not kept while the next message is waited for

        return guarded

    def _answered(
        self,
        handler: Handler,
        method: str,
        messages: Messages,
        raw: Iterator[bytes],
        context: grpc.ServicerContext,
    ) -> Iterator[Any]:
        """Yield the answer to the one message, which counts until the answer was taken.

        Raises:
            MalformedRequest: If there is no message.
        """
        parse = cast("Behaviour", handler.request_deserializer)
        with closing(messages.received(raw, context, parse, lambda: _MESSAGE_SECONDS)) as received:
            message = next(received, None)
            if message is None:
                msg = "the call ended without its message"
                raise MalformedRequest(msg)
            answer = cast("Behaviour", handler.unary_unary)
            if method in _TAKES_LONG:
                yield answer(message, context)
                return
            with working_for(messages.caller.name), self._desk.turn():
                answered = answer(message, context)
            yield answered

    def _streamed(
        self,
        handler: Handler,
        method: str,
        messages: Messages,
        raw: Iterator[bytes],
        context: grpc.ServicerContext,
    ) -> Iterator[Any]:
        """Yield the answers to a stream of messages."""
        parse = cast("Behaviour", handler.request_deserializer)
        parts = Parts(self._bounds.room, messages.caller, self._bounds.most_request_bytes)
        received = messages.received(raw, context, parse, lambda: parts.seconds(_IDLE_SECONDS))
        with closing(parts.joined(received) if method == STEPS else received) as whole:
            yield from cast("Behaviour", handler.stream_stream)(whole, context)

    @contextmanager
    def _admitting(
        self, context: grpc.ServicerContext, method: str, metadata: Metadata
    ) -> Iterator[Messages]:
        """Let a caller in who is known, permitted and has not too many calls open."""
        with self._speaking(context, method):
            credentials = Credentials.of(metadata, context)
            caller = self._authenticator.caller(credentials)
            context.weir_caller = caller  # type: ignore[attr-defined]
            require_permission(method, caller.role)
            with self._bounds.calls.counted(caller):
                yield Messages(
                    authenticator=self._authenticator,
                    patience=self._bounds.patience,
                    room=self._bounds.room,
                    credentials=credentials,
                    caller=caller,
                )

    @contextmanager
    def _speaking(self, context: grpc.ServicerContext, method: str) -> Iterator[None]:
        """Turn what goes wrong into constant words, and log the call.

        Raises:
            GeneratorExit: If the other side has gone.
            RpcError: The same, or it has waited too long.
        """
        request_id, started = secrets.token_hex(8), time.monotonic()
        outcome = "OK"
        try:
            yield
        except CuratorError as error:
            outcome = error.reason
            _abort(context, error, request_id)
        except (GeneratorExit, grpc.RpcError):
            outcome = "CANCELLED"
            raise
        except Exception:  # noqa: BLE001 - its text may hold anything, so it goes nowhere
            outcome = CuratorError.reason
            _abort(context, CuratorError(), request_id)
        finally:
            caller: Caller | None = getattr(context, "weir_caller", None)
            self._telemetry.finished(
                _logger,
                FinishedRequest(
                    request_id=request_id,
                    method=method if method in PERMISSIONS else OTHER,
                    caller="" if caller is None else caller.name,
                    outcome=outcome,
                    seconds=time.monotonic() - started,
                    reason="" if outcome in _NOT_REFUSED else outcome,
                ),
            )


def _size(answer: Any) -> int:
    """Return the bytes of an answer; one that is encoded already is not encoded to be counted."""
    return int(answer.ByteSize()) if isinstance(answer, Message) else len(answer)


def _answering_at_once(handler: Handler | None) -> Handler | None:
    """Answer a health check without waiting for its message, which may never come."""
    if handler is None:
        return None
    check = cast("Behaviour", handler.unary_unary)

    def answer(raw: Iterator[bytes], context: grpc.ServicerContext) -> Any:
        del raw
        return check(health_pb2.HealthCheckRequest(), context)

    return grpc.stream_unary_rpc_method_handler(answer, None, handler.response_serializer)


def _abort(context: grpc.ServicerContext, error: CuratorError, request_id: str) -> NoReturn:
    refusal = encode_refusal(error, request_id)
    context.set_trailing_metadata(
        (
            (REFUSAL_KEY, refusal.SerializeToString()),
            (DETAILS_KEY, encode_details(error, refusal).SerializeToString()),
        )
    )
    context.abort(status_code(error), status_text(error))
