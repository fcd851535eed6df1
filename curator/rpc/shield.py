"""Around every call: who asks, one log line, and no exception text to the client.

gRPC for Python sends the text of an uncaught exception to the client, on unary calls and streams
alike. Here only `CuratorError`s speak, in constant words; anything else becomes one opaque error.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias, cast, final

import grpc

from curator.errors import CuratorError
from curator.rpc.identity import Authenticator
from curator.rpc.status import REFUSAL_KEY, encode_refusal, status_code, status_text
from curator.service.caller import Caller
from curator.telemetry.log import log_request

_logger = logging.getLogger(__name__)
_OPEN_METHODS = ("/grpc.health.v1.Health/", "/grpc.reflection.")

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in the stubs only
Details = grpc.HandlerCallDetails
Behaviour = Callable[..., Any]


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

    def intercept_service(
        self, continuation: Callable[[Details], Handler | None], handler_call_details: Details
    ) -> Handler | None:
        """Wrap one method.

        Args:
            continuation: The next interceptor, or the servicer.
            handler_call_details: Method and metadata.

        Returns:
            The wrapped handler.
        """
        handler = continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None or method.startswith(_OPEN_METHODS):
            return handler
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(
                self._streaming(cast("Behaviour", handler.stream_stream), method),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._unary(cast("Behaviour", handler.unary_unary), method),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _unary(self, behaviour: Behaviour, method: str) -> Callable[..., Any]:
        def guarded(request: Any, context: grpc.ServicerContext) -> Any:
            with self._guard(context, method):
                return behaviour(request, context)

        return guarded

    def _streaming(self, behaviour: Behaviour, method: str) -> Callable[..., Any]:
        def guarded(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            with self._guard(context, method):
                yield from behaviour(requests, context)

        return guarded

    @contextmanager
    def _guard(self, context: grpc.ServicerContext, method: str) -> Iterator[None]:
        request_id, started = secrets.token_hex(8), time.monotonic()
        caller_name, outcome = "", "OK"
        try:
            caller = self._authenticator.caller(dict(context.invocation_metadata()))
            context.weir_caller = caller  # type: ignore[attr-defined]
            caller_name = caller.name
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
                caller=caller_name,
                outcome=outcome,
                seconds=time.monotonic() - started,
            )


def _abort(context: grpc.ServicerContext, error: CuratorError, request_id: str) -> NoReturn:
    context.set_trailing_metadata(
        ((REFUSAL_KEY, encode_refusal(error, request_id).SerializeToString()),)
    )
    context.abort(status_code(error), status_text(error))
