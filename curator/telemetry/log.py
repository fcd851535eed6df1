"""One JSON line per request, from an allow-list of fields.

No tensor, norm, realised batch size or exception text ever gets here: the only doors are
`log_request` with named, typed fields and constant messages from inside the curator.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from datetime import UTC, datetime
from typing import Final, final

_FIELDS = ("request_id", "method", "caller", "outcome", "duration")
BUCKET_SECONDS: Final = (0.01, 0.1, 1.0, 10.0)
"""Upper bounds of the durations that are told: in the log, the metrics and the traces alike."""


def duration_bound(seconds: float) -> float:
    """Return the upper bound of a duration's bucket, infinity above the last."""
    return next((bound for bound in BUCKET_SECONDS if seconds <= bound), math.inf)


def duration_bucket(seconds: float) -> str:
    """Return a coarse duration; an exact one would be a measurement."""
    bound = duration_bound(seconds)
    return f"<={bound:g}s" if math.isfinite(bound) else f">{BUCKET_SECONDS[-1]:g}s"


def log_request(
    logger: logging.Logger,
    *,
    request_id: str,
    method: str,
    caller: str,
    outcome: str,
    seconds: float,
) -> None:
    """Log one finished call.

    Args:
        logger: Of the shell that served it.
        request_id: Also sent to the caller with an error.
        method: Full method name.
        caller: Name of the authenticated caller, or empty.
        outcome: OK or the reason of an error.
        seconds: Duration; only its bucket is written.
    """
    logger.info(
        "request",
        extra={
            "request_id": request_id,
            "method": method,
            "caller": caller,
            "outcome": outcome,
            "duration": duration_bucket(seconds),
        },
    )


@final
class JsonFormatter(logging.Formatter):
    """Format a record as one JSON line; exception information is dropped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        return json.dumps(line, ensure_ascii=True)


def configure_logging() -> None:
    """Send the curator's own loggers, and warnings of libraries, to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.ERROR)
    logging.getLogger("curator").setLevel(logging.INFO)
