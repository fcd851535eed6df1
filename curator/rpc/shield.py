"""Around every call: who asks, one log line, and no exception text to the client.

gRPC for Python sends the text of an uncaught exception to the client, on unary calls and streams
alike. Here only `CuratorError`s speak, in constant words; anything else becomes one opaque error.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias, cast, final

import grpc
from grpc_health.v1 import health_pb2

from curator.errors import CuratorError, TooManyCalls, Unauthenticated
from curator.rpc.identity import Authenticator
from curator.rpc.status import REFUSAL_KEY, encode_refusal, status_code, status_text
from curator.service.caller import Caller
from curator.telemetry.log import log_request

_logger = logging.getLogger(__name__)
_CALLS_PER_CALLER = 24
_HEALTH_CHECK = "/grpc.health.v1.Health/Check"
_OPEN_METHODS = ("/grpc.health.v1.Health/", "/grpc.reflection.")

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in the stubs only
Details = grpc.HandlerCallDetails
Behaviour = Callable[..., Any]
Metadata = dict[str, str | bytes]


def caller_of(context: grpc.ServicerContext) -> Caller:
    """Return who the shield found for this call.

    Args:
        context: Of a call that went through the shield.
    """
    caller: Caller = context.weir_caller  # type: ignore[attr-defined]
    return caller


@final
class Shield(grpc.ServerInterceptor):  # type: ignore[type-arg]
    """Authenticates every call and converts every exception."""

    def __init__(self, authenticator: Authenticator) -> None:
        """Take the table of known callers."""
        self._authenticator = authenticator
        self._lock = threading.Lock()
        self._active: Counter[str] = Counter()

    def intercept_service(
        self, continuation: Callable[[Details], Handler | None], handler_call_details: Details
    ) -> Handler | None:
        """Find out who calls, before any message is awaited, and wrap the method.

        A unary handler runs only when its message has come, in a thread that waits for it. So a
        caller without credentials gets a handler that answers at once.

        Args:
            continuation: The next interceptor, or the servicer.
            handler_call_details: Method and metadata.

        Returns:
            The wrapped handler.
        """
        method = str(handler_call_details.method)
        if method == _HEALTH_CHECK:
            return _answering_at_once(continuation(handler_call_details))
        if method.startswith(_OPEN_METHODS):
            return continuation(handler_call_details)
        try:
            caller = self._authenticator.caller(dict(handler_call_details.invocation_metadata))
        except Exception as error:  # noqa: BLE001 - its text may hold anything, so it goes nowhere
            known = error if isinstance(error, CuratorError) else CuratorError()
            return grpc.stream_stream_rpc_method_handler(self._refusing(known, method))
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(
                self._streaming(
                    cast("Behaviour", handler.stream_stream),
                    method,
                    caller,
                    dict(handler_call_details.invocation_metadata),
                ),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._unary(cast("Behaviour", handler.unary_unary), method, caller),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _refusing(self, error: CuratorError, method: str) -> Behaviour:
        def refuse(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            del requests
            with self._guard(context, method, None):
                raise error

        return refuse

    def _unary(self, behaviour: Behaviour, method: str, caller: Caller) -> Behaviour:
        def guarded(request: Any, context: grpc.ServicerContext) -> Any:
            with self._guard(context, method, caller):
                return behaviour(request, context)

        return guarded

    def _streaming(
        self, behaviour: Behaviour, method: str, caller: Caller, metadata: Metadata
    ) -> Behaviour:
        def guarded(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            with self._guard(context, method, caller):
                yield from behaviour(self._still_known(requests, caller, metadata), context)

        return guarded

    def _still_known(
        self, requests: Iterator[Any], caller: Caller, metadata: Metadata
    ) -> Iterator[Any]:
        """Pass messages on while the credentials hold: revoking them ends an open stream too.

        Raises:
            Unauthenticated: If they have ended, or are another caller's.
        """
        for request in requests:
            if self._authenticator.caller(metadata) != caller:
                raise Unauthenticated
            yield request

    @contextmanager
    def _counted(self, caller: Caller) -> Iterator[None]:
        """Count the calls that a caller has open.

        Raises:
            TooManyCalls: If there are too many.
        """
        with self._lock:
            if self._active[caller.name] >= _CALLS_PER_CALLER:
                raise TooManyCalls
            self._active[caller.name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._active[caller.name] -= 1

    @contextmanager
    def _guard(
        self, context: grpc.ServicerContext, method: str, caller: Caller | None
    ) -> Iterator[None]:
        request_id, started = secrets.token_hex(8), time.monotonic()
        outcome = "OK"
        try:
            if caller is None:
                yield
            else:
                context.weir_caller = caller  # type: ignore[attr-defined]
                with self._counted(caller):
                    yield
        except CuratorError as error:
            outcome = error.reason
            _abort(context, error, request_id)
        except GeneratorExit:
            outcome = "CANCELLED"
            raise
        except Exception:  # noqa: BLE001 - its text may hold anything, so it goes nowhere
            outcome = CuratorError.reason
            _abort(context, CuratorError(), request_id)
        finally:
            log_request(
                _logger,
                request_id=request_id,
                method=method,
                caller="" if caller is None else caller.name,
                outcome=outcome,
                seconds=time.monotonic() - started,
            )


def _answering_at_once(handler: Handler | None) -> Handler | None:
    """Answer a health check without waiting for its message, which may never come."""
    if handler is None:
        return None
    check = cast("Behaviour", handler.unary_unary)

    def answer(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        del requests
        yield check(health_pb2.HealthCheckRequest(), context)

    return grpc.stream_stream_rpc_method_handler(
        answer, handler.request_deserializer, handler.response_serializer
    )


def _abort(context: grpc.ServicerContext, error: CuratorError, request_id: str) -> NoReturn:
    context.set_trailing_metadata(
        ((REFUSAL_KEY, encode_refusal(error, request_id).SerializeToString()),)
    )
    context.abort(status_code(error), status_text(error))
