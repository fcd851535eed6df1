"""From a failed call to a typed exception."""

from __future__ import annotations

from typing import Final, cast

import grpc
from google.protobuf.message import DecodeError

from analyst import errors
from analyst.client.messages import value_of
from analyst.errors import (
    AnalystError,
    BudgetNumbers,
    CuratorFailed,
    CuratorSilent,
    CuratorUnavailable,
    CuratorUnreachable,
    ProtocolError,
    RequestRefused,
)
from protos.weir.v1 import refusal_pb2

_KEY = "weir-refusal-bin"
REFUSALS: Final[dict[str, type[RequestRefused]]] = {
    "INVALID_REQUEST": RequestRefused,
    "MALFORMED_REQUEST": errors.MalformedRequest,
    "STEP_OUT_OF_ORDER": errors.StepOutOfOrder,
    "STEP_CONFLICT": errors.StepConflict,
    "UNAUTHENTICATED": errors.Unauthenticated,
    "UNKNOWN_DATASET": errors.UnknownDataset,
    "UNKNOWN_RUN": errors.UnknownRun,
    "REFUSED": errors.Refused,
    "RUN_CLOSED": errors.RunClosed,
    "DATASET_PAUSED": errors.DatasetPaused,
    "DATASET_RETIRED": errors.DatasetRetired,
    "DATASET_OUT_OF_SERVICE": errors.DatasetOutOfService,
    "TOO_MANY_RUNS": errors.TooManyRuns,
    "TOO_MUCH_STATE": errors.TooMuchState,
    "NOT_PERMITTED": errors.NotPermitted,
    "POLICY_REFUSED": errors.PolicyRefused,
    "STEP_LOST": errors.StepLost,
}
EXHAUSTED: Final[dict[str, type[errors.BudgetExhausted]]] = {
    "PRIVACY_BUDGET_EXHAUSTED": errors.BudgetExhausted,
    "ANALYST_BUDGET_EXHAUSTED": errors.ShareExhausted,
}
UNAVAILABLE: Final[dict[str, type[CuratorUnavailable]]] = {
    "UNAVAILABLE": CuratorUnavailable,
    "LEDGER_UNAVAILABLE": CuratorUnavailable,
    "TOO_MANY_CALLS": errors.TooManyCalls,
    "TOO_MANY_BYTES": errors.TooManyBytes,
    "TOO_FAST": errors.TooFast,
}


def unreachable(target: str, why: str | None = None) -> CuratorUnreachable:
    """Return the error for an address that does not answer."""
    return CuratorUnreachable(
        f"No curator answers at {target}.{f' {why}' if why else ''}",
        "Check that 'curator serve' runs there, that host and port are right (client certificates "
        "have a port of their own), that a firewall "
        "does not block them, and that the host is among the names in the curator's certificate "
        "(host_names in its configuration).",
    )


def to_exception(error: grpc.RpcError, target: str) -> AnalystError:
    """Translate a failed call.

    Returns:
        The typed exception; its words are the curator's constants or this client's.
    """
    refusal = _refusal(error)
    if refusal is not None:
        return _from_refusal(refusal)
    code = _call(error).code()
    if code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}:
        return unreachable(target)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return CuratorUnreachable(
            f"The curator at {target} has too much to do, or the message is too large for it.",
            "Send the same request again later, or with fewer images.",
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return CuratorSilent(
            f"The curator at {target} did not answer in time.",
            "Send the same request again; if it stays so, ask the steward.",
        )
    return ProtocolError(
        f"The curator at {target} answered with an error this client does not know ({code.name}).",
        "Check that the address is a Weir curator and that both sides have the same version.",
    )


def _call(error: grpc.RpcError) -> grpc.Call:
    """Every error of a client's call is the call itself; the stubs do not say so."""
    return cast("grpc.Call", error)


def _refusal(error: grpc.RpcError) -> refusal_pb2.Refusal | None:
    for key, value in _call(error).trailing_metadata() or ():
        if key == _KEY and isinstance(value, bytes):
            try:
                return refusal_pb2.Refusal.FromString(value)
            except DecodeError:
                return None
    return None


def _from_refusal(refusal: refusal_pb2.Refusal) -> AnalystError:
    reason, message = refusal.reason, refusal.message
    words = (reason, message, refusal.detail, refusal.remedy)
    if reason in EXHAUSTED:
        return EXHAUSTED[reason](*words, numbers=value_of(BudgetNumbers, refusal.budget))
    if reason in UNAVAILABLE:
        detailed = f"{message} ({refusal.detail})" if refusal.detail else message
        return UNAVAILABLE[reason](
            detailed, refusal.remedy, reason=reason, retry_seconds=refusal.retry_seconds
        )
    if reason == "INTERNAL":
        return CuratorFailed(message, f"{refusal.remedy} (request {refusal.request_id})")
    return REFUSALS.get(reason, RequestRefused)(*words)
