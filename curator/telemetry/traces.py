"""OpenTelemetry spans of finished requests: off unless configured, and no more than the log tells.

A span lasts as long as the upper bound of its duration's bucket, and has the log's fields as its
only attributes. What a caller sends as trace context is not believed and not read.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

from curator.telemetry.log import BUCKET_SECONDS, duration_bound, duration_bucket
from curator.telemetry.requests import FinishedRequest, Trace

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

ATTRIBUTES: Final = (
    "weir.request_id",
    "weir.method",
    "weir.caller",
    "weir.outcome",
    "weir.duration",
)
_SERVICE: Final = "weir-curator"


class TracingNotInstalled(RuntimeError):
    """Tracing is configured, and OpenTelemetry is not installed."""


def create_trace(endpoint: str) -> Trace:
    """Return what exports finished requests to a collector over OTLP.

    Args:
        endpoint: URL of the collector's HTTP traces, such as http://localhost:4318/v1/traces.

    Raises:
        TracingNotInstalled: If the extra `otel` is missing.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        msg = "telemetry.trace_endpoint needs OpenTelemetry: pip install 'weir-dp[otel]'"
        raise TracingNotInstalled(msg) from None
    return trace_to(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))


def trace_to(processor: SpanProcessor) -> Trace:
    """Return what hands spans to a processor."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    from opentelemetry.trace import SpanKind

    provider = TracerProvider(sampler=ALWAYS_ON, resource=Resource({"service.name": _SERVICE}))
    provider.add_span_processor(processor)
    tracer = provider.get_tracer(_SERVICE)

    def trace(request: FinishedRequest) -> None:
        ended = time.time_ns()
        bound = duration_bound(request.seconds)
        shown = bound if math.isfinite(bound) else BUCKET_SECONDS[-1]
        values = (
            request.request_id,
            request.method,
            request.caller,
            request.outcome,
            duration_bucket(request.seconds),
        )
        span = tracer.start_span(
            request.method,
            kind=SpanKind.SERVER,
            attributes=dict(zip(ATTRIBUTES, values, strict=True)),
            start_time=ended - int(shown * 1e9),
        )
        span.end(end_time=ended)

    return trace
