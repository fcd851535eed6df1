"""The same refusal in google.rpc's words, for clients that know no Weir.

Everything here is derived from the refusal that travels beside it, so it can say no more.
"""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import (
    BadRequest,
    ErrorInfo,
    QuotaFailure,
    RequestInfo,
    RetryInfo,
)
from google.rpc.status_pb2 import Status

from curator import errors
from curator.rpc.status import status_code, status_text
from protos.weir.v1 import refusal_pb2

DETAILS_KEY = "grpc-status-details-bin"
DOMAIN = "weir-dp"
_NUMBERS = ("budget", "spent", "reserved", "asked", "remaining", "delta")


def encode_details(error: errors.CuratorError, refusal: refusal_pb2.Refusal) -> Status:
    """Return the rich status of an error.

    Args:
        error: What happened.
        refusal: The same as it travels in Weir's own words.

    Returns:
        ErrorInfo and RequestInfo always; QuotaFailure for a budget, BadRequest for a field,
        RetryInfo where asking again helps.
    """
    details: list[Message] = [
        ErrorInfo(reason=refusal.reason, domain=DOMAIN, metadata={"remedy": refusal.remedy}),
        RequestInfo(request_id=refusal.request_id),
    ]
    if isinstance(error, errors.BudgetExhausted):
        details.append(_quota(error, refusal))
    if isinstance(error, errors.MalformedRequest):
        field = error.field or "request"
        violation = BadRequest.FieldViolation(field=field, description=refusal.detail)
        details.append(BadRequest(field_violations=[violation]))
    if refusal.retry_seconds > 0:
        delay = Duration()
        delay.FromNanoseconds(int(refusal.retry_seconds * 1e9))
        details.append(RetryInfo(retry_delay=delay))
    status = Status(code=status_code(error).value[0], message=status_text(error))
    for detail in details:
        status.details.add().Pack(detail)
    return status


def _quota(error: errors.BudgetExhausted, refusal: refusal_pb2.Refusal) -> QuotaFailure:
    is_own_share = isinstance(error, errors.AllotmentExhausted)
    numbers = {name: repr(getattr(refusal.budget, name)) for name in _NUMBERS}
    violation = QuotaFailure.Violation(
        subject="analyst" if is_own_share else "dataset",
        description=refusal.detail,
        quota_metric="epsilon",
        quota_dimensions=numbers,
    )
    return QuotaFailure(violations=[violation])
