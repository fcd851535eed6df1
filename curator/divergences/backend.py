"""Which body runs the dense Sinkhorn updates: compiled loops where they agree, else plain torch.

On the processor the compiled loops are numba's, on a graphics card Triton's. Whichever body serves
has been compared with float64 on the device where it will compute.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Final

import torch

from curator.divergences.agreement import PUBLISHED, SMALL, disagreement
from curator.divergences.backend_names import Backend as Backend
from curator.divergences.cost import LabelledCost
from curator.divergences.device import compute_device
from curator.divergences.schedule import Schedule
from curator.divergences.sinkhorn import DenseSinkhorn, TransportSolver

_logger = logging.getLogger(__name__)
_AGREEMENT: Final = 1e-3  # of float32 with float64, relative
_chosen: dict[str, bool] = {}


class BackendUnavailable(RuntimeError):
    """The body that was asked for is not installed, or does not agree with float64."""


def choose_backend(wanted: Backend) -> Backend:
    """Choose the body for every run of this process, after checking it against float64.

    To be called after `choose_device`.

    Args:
        wanted: What the configuration says; `auto` takes compiled loops if they may be used.

    Returns:
        TORCH, or the compiled body of the device.

    Raises:
        BackendUnavailable: If a compiled body was asked for and may not be used.
    """
    compiled = Backend.TRITON if compute_device().type == "cuda" else Backend.NUMBA
    problem = "" if wanted is Backend.TORCH else _problem(compiled)
    if wanted not in {Backend.AUTO, Backend.TORCH, compiled}:
        problem = f"it does not run on {compute_device().type}"
    if problem and wanted is not Backend.AUTO:
        msg = f"compute.solver = '{wanted}' cannot be used: {problem}; 'auto' takes torch instead"
        raise BackendUnavailable(msg)
    is_compiled = wanted is not Backend.TORCH and not problem
    _chosen["compiled"] = is_compiled
    if problem:
        _logger.warning("the Sinkhorn updates run in plain torch")
    return compiled if is_compiled else Backend.TORCH


def dense_solver(cost: LabelledCost, schedule: Schedule, dtype: torch.dtype) -> TransportSolver:
    """Return a solver with the chosen body; float64 and Newton steps are plain torch's.

    Args:
        cost: The ground cost.
        schedule: Temperatures and kinds of updates.
        dtype: Of the images that it will be given.
    """
    is_plain = dtype is not torch.float32 or bool(schedule.newton_temperatures)
    if not is_plain and _chosen.get("compiled", False):
        return _compiled(cost, schedule)
    return DenseSinkhorn(cost=cost, schedule=schedule)


def _problem(body: Backend) -> str:
    """Return why a compiled body may not be used, or nothing."""
    name = str(body)
    if find_spec(name) is None:
        return f"{name} is not installed"
    problem = PUBLISHED if body is Backend.TRITON else SMALL
    try:
        solver = _compiled(problem.cost, problem.schedule)
        worst = disagreement(solver, problem, compute_device())
    except Exception:  # noqa: BLE001 - a compiler can fail in any way; the reference body remains
        return "its loops could not be compiled"
    return "" if worst <= _AGREEMENT else "its gradients differ from float64"


def _compiled(cost: LabelledCost, schedule: Schedule) -> TransportSolver:
    """Return the compiled body of the device; each imports its compiler."""
    if compute_device().type == "cuda":
        from curator.divergences.cuda_sinkhorn import FusedSinkhorn

        return FusedSinkhorn(cost, schedule, compute_device())
    from curator.divergences.compiled import CompiledSinkhorn

    return CompiledSinkhorn(cost=cost, schedule=schedule)
