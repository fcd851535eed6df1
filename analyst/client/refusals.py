"""From a failed call to a typed exception."""

from __future__ import annotations

from typing import cast

import grpc

from analyst.errors import (
    AnalystError,
    BudgetExhausted,
    BudgetNumbers,
    CuratorUnreachable,
    ProtocolError,
    Refused,
    RequestRefused,
    RunClosed,
    StepLost,
)
from protos.weir.v1 import refusal_pb2

_KEY = "weir-refusal-bin"
_REFUSALS: dict[str, type[Refused]] = {
    "RUN_CLOSED": RunClosed,
    "STEP_LOST": StepLost,
    "NOT_PERMITTED": Refused,
    "REFUSED": Refused,
}
_RETRY_REASONS = {"UNAVAILABLE", "LEDGER_UNAVAILABLE", "TOO_MANY_CALLS"}


def unreachable(target: str) -> CuratorUnreachable:
    """Return the error for an address that does not answer.

    Args:
        target: HOST:PORT.
    """
    return CuratorUnreachable(
        f"No curator answers at {target}.",
        "Check that 'curator serve' runs there, that host and port are right, that a firewall "
        "does not block them, and that the host is among the names in the curator's certificate "
        "(host_names in its configuration).",
    )


def to_exception(error: grpc.RpcError, target: str) -> AnalystError:
    """Translate a failed call.

    Args:
        error: As gRPC raised it.
        target: HOST:PORT, for messages.

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
        return CuratorUnreachable(
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
            refusal = refusal_pb2.Refusal()
            refusal.ParseFromString(value)
            return refusal
    return None


def _from_refusal(refusal: refusal_pb2.Refusal) -> AnalystError:
    words = (refusal.reason, refusal.message, refusal.detail, refusal.remedy)
    if refusal.reason == "PRIVACY_BUDGET_EXHAUSTED":
        numbers = refusal.budget
        return BudgetExhausted(
            *words,
            numbers=BudgetNumbers(
                budget=numbers.budget,
                spent=numbers.spent,
                reserved=numbers.reserved,
                asked=numbers.asked,
                remaining=numbers.remaining,
                delta=numbers.delta,
            ),
        )
    if refusal.reason in _RETRY_REASONS:
        return CuratorUnreachable(refusal.message, refusal.remedy)
    if refusal.reason == "INTERNAL":
        request = f"{refusal.remedy} (request {refusal.request_id})"
        return AnalystError(refusal.message, request)
    return _REFUSALS.get(refusal.reason, RequestRefused)(*words)
