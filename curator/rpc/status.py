"""Errors as gRPC says them: a status for each, and the refusal that travels beside it."""

from __future__ import annotations

import grpc

from curator import errors
from protos.weir.v1 import refusal_pb2

REFUSAL_KEY = "weir-refusal-bin"

STATUS: dict[type[errors.CuratorError], grpc.StatusCode] = {
    errors.CuratorError: grpc.StatusCode.INTERNAL,
    errors.RequestError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.MalformedRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.StepOutOfOrder: grpc.StatusCode.INVALID_ARGUMENT,
    errors.StepConflict: grpc.StatusCode.INVALID_ARGUMENT,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.UnknownDataset: grpc.StatusCode.NOT_FOUND,
    errors.UnknownRun: grpc.StatusCode.NOT_FOUND,
    errors.Refusal: grpc.StatusCode.FAILED_PRECONDITION,
    errors.BudgetExhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.AllotmentExhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.RunClosed: grpc.StatusCode.FAILED_PRECONDITION,
    errors.DatasetPaused: grpc.StatusCode.FAILED_PRECONDITION,
    errors.DatasetRetired: grpc.StatusCode.FAILED_PRECONDITION,
    errors.DatasetOutOfService: grpc.StatusCode.FAILED_PRECONDITION,
    errors.TooManyRuns: grpc.StatusCode.FAILED_PRECONDITION,
    errors.TooMuchState: grpc.StatusCode.FAILED_PRECONDITION,
    errors.NotPermitted: grpc.StatusCode.PERMISSION_DENIED,
    errors.PolicyRefused: grpc.StatusCode.PERMISSION_DENIED,
    errors.StepLost: grpc.StatusCode.ALREADY_EXISTS,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.LedgerUnavailable: grpc.StatusCode.UNAVAILABLE,
    errors.TooManyCalls: grpc.StatusCode.UNAVAILABLE,
    errors.TooManyBytes: grpc.StatusCode.UNAVAILABLE,
    errors.TooFast: grpc.StatusCode.UNAVAILABLE,
}


def status_code(error: errors.CuratorError) -> grpc.StatusCode:
    """Return the code of an error, or of its nearest ancestor in the table."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def encode_refusal(error: errors.CuratorError, request_id: str) -> refusal_pb2.Refusal:
    """Encode an error for the trailing metadata.

    Args:
        error: What happened, in public words.
        request_id: So that the steward can find the log line.
    """
    refusal = refusal_pb2.Refusal(
        reason=error.reason,
        message=error.public_message,
        detail=error.public_detail,
        remedy=error.remedy,
        request_id=request_id,
    )
    if isinstance(error, errors.Unavailable):
        refusal.retry_seconds = error.retry_seconds
    if isinstance(error, errors.BudgetExhausted):
        numbers = error.numbers
        refusal.budget.CopyFrom(
            refusal_pb2.BudgetNumbers(
                budget=numbers.budget,
                spent=numbers.spent,
                reserved=numbers.reserved,
                asked=numbers.asked,
                remaining=numbers.remaining,
                delta=numbers.delta,
            )
        )
    return refusal


def status_text(error: errors.CuratorError) -> str:
    """Return the status message: reason, constant words, public detail, what to do next."""
    detail = error.public_detail
    shown = f" ({detail})" if detail else ""
    return f"{error.reason}: {error.public_message}{shown} {error.remedy}"
