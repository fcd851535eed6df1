"""Which body runs the dense Sinkhorn updates: compiled loops where they agree, else plain torch.

On the processor the compiled loops are numba's, on a graphics card Triton's. Whichever body serves
has been compared with float64 on the device where it will compute, and says by how much it differs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import torch

from curator.divergences.agreement import PROBLEMS, CheckProblem, disagreement
from curator.divergences.backend_names import Backend as Backend
from curator.divergences.cost import LabelledCost
from curator.divergences.device import compute_device
from curator.divergences.schedule import Schedule
from curator.divergences.sinkhorn import DenseSinkhorn, TransportSolver

_logger = logging.getLogger(__name__)
_chosen: dict[str, bool] = {}


class BackendUnavailable(RuntimeError):
    """The body that was asked for is not installed, or does not agree with float64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the comparison of one body with float64 found; public facts of this machine.

    `error` is the worst of all problems beside what it `allowed`, in units of the problem's largest
    gradient; None where there is no number. `reason` says why the body may not be used, and is
    empty if it may; `cause` is the text of an exception, for the steward's terminal alone.
    """

    error: float | None = None
    allowed: float | None = None
    reason: str = ""
    cause: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The body of every run of this process, and the one that was refused, if one was."""

    body: Backend
    verdict: Verdict
    refused: Backend | None = None
    refusal: Verdict | None = None

    @property
    def reason(self) -> str:
        """Why the faster body is not used, or why the present one is in doubt; mostly empty."""
        if self.refused is not None and self.refusal is not None:
            return f"{self.refused} is not used: {self.refusal.reason}"
        return self.verdict.reason

    @property
    def facts(self) -> dict[str, str | float | None]:
        """The same as plain values, for programs."""
        return {
            "body": str(self.body),
            "error": self.verdict.error,
            "allowed": self.verdict.allowed,
            "reason": self.reason,
        }

    @property
    def words(self) -> str:
        """Body, error and reason in one line."""
        error = "unknown" if self.verdict.error is None else f"{self.verdict.error:.1e}"
        return f"{self.body} (error {error}" + (f"; {self.reason})" if self.reason else ")")


def compiled_body() -> Backend:
    """Return the compiled body that the chosen device could have."""
    return Backend.TRITON if compute_device().type == "cuda" else Backend.NUMBA


def choose_backend(wanted: Backend) -> Choice:
    """Choose the body for every run of this process, after checking it against float64.

    To be called after `choose_device`.

    Args:
        wanted: What the configuration says; `auto` takes compiled loops if they may be used.

    Returns:
        TORCH, or the compiled body of the device, with what was measured.

    Raises:
        BackendUnavailable: If a compiled body was asked for and may not be used.
    """
    choice = decide(wanted, check_body)
    _chosen["compiled"] = choice.body is not Backend.TORCH
    if choice.reason:
        _logger.warning("the Sinkhorn updates run in plain torch: %s", choice.reason)
    return choice


def decide(wanted: Backend, check: Callable[[Backend], Verdict]) -> Choice:
    """Return what `choose_backend` would choose, and change nothing.

    Raises:
        BackendUnavailable: If a compiled body was asked for and may not be used.
    """
    if wanted is Backend.TORCH:
        return Choice(body=wanted, verdict=check(wanted))
    compiled = compiled_body()
    if wanted not in {Backend.AUTO, compiled}:
        verdict = Verdict(reason=f"it does not run on {compute_device().type}")
    else:
        verdict = check(compiled)
    if not verdict.reason:
        return Choice(body=compiled, verdict=verdict)
    if wanted is not Backend.AUTO:
        msg = (
            f"compute.solver = '{wanted}' cannot be used: {verdict.reason}; 'auto' takes torch "
            "instead, and 'curator doctor' shows what was measured"
        )
        raise BackendUnavailable(msg)
    plain = check(Backend.TORCH)
    return Choice(body=Backend.TORCH, verdict=plain, refused=compiled, refusal=verdict)


def check_body(body: Backend) -> Verdict:
    """Compare a body with float64 on the chosen device, with every problem."""
    if body is not Backend.TORCH and find_spec(str(body)) is None:
        return Verdict(reason=f"{body} is not installed")
    try:
        measured = [_measured(body, problem) for problem in PROBLEMS]
    except Exception as fault:  # noqa: BLE001 - a compiler can fail in any way; torch remains
        name, text = type(fault).__name__, str(fault).strip().partition("\n")[0]
        reason = f"its loops could not be compiled ({name})"
        return Verdict(reason=reason, cause=f"{name}: {text}")
    return next((one for one in measured if one.reason), max(measured, key=_part_of_allowed))


def _measured(body: Backend, problem: CheckProblem) -> Verdict:
    solver = body_solver(body, problem.cost, problem.schedule)
    error, allowed = disagreement(solver, problem, compute_device()), problem.tolerance
    if not math.isfinite(error):
        return Verdict(allowed=allowed, reason="its gradients are not numbers")
    reason = (
        f"its gradients differ from float64 by {error:.1e} of the largest, {allowed:.0e} is allowed"
    )
    return Verdict(error=error, allowed=allowed, reason=reason if error > allowed else "")


def _part_of_allowed(verdict: Verdict) -> float:
    return (verdict.error or 0.0) / (verdict.allowed or 1.0)


def dense_solver(cost: LabelledCost, schedule: Schedule, dtype: torch.dtype) -> TransportSolver:
    """Return a solver with the chosen body; float64 and Newton steps are plain torch's."""
    is_plain = dtype is not torch.float32 or bool(schedule.newton_temperatures)
    if not is_plain and _chosen.get("compiled", False):
        return body_solver(compiled_body(), cost, schedule)
    return body_solver(Backend.TORCH, cost, schedule)


def body_solver(body: Backend, cost: LabelledCost, schedule: Schedule) -> TransportSolver:
    """Return a solver of one body; a compiled one imports its compiler."""
    if body is Backend.TORCH:
        return DenseSinkhorn(cost=cost, schedule=schedule)
    return _compiled(cost, schedule)


def _compiled(cost: LabelledCost, schedule: Schedule) -> TransportSolver:
    """Return the compiled body of the device; each imports its compiler."""
    if compute_device().type == "cuda":
        from curator.divergences.cuda_sinkhorn import FusedSinkhorn

        return FusedSinkhorn(cost, schedule, compute_device())
    from curator.divergences.compiled import CompiledSinkhorn

    return CompiledSinkhorn(cost=cost, schedule=schedule)
