"""Which body runs the dense Sinkhorn updates: compiled loops where they agree, else plain torch."""

from __future__ import annotations

import logging
from enum import StrEnum
from importlib.util import find_spec
from typing import Final

import torch

from curator.divergences.cost import LabelledCost, WeightedPoints, uniform_points
from curator.divergences.schedule import Schedule, published
from curator.divergences.sinkhorn import DenseSinkhorn, TransportSolver

_logger = logging.getLogger(__name__)
_AGREEMENT: Final = 1e-3  # of float32 with float64, relative, on the problem below
_chosen: dict[str, bool] = {}


class Backend(StrEnum):
    """What the steward may ask for."""

    AUTO = "auto"
    TORCH = "torch"
    NUMBA = "numba"


class BackendUnavailable(RuntimeError):
    """The body that was asked for is not installed, or does not agree with float64."""


def choose_backend(wanted: Backend) -> Backend:
    """Choose the body for every run of this process, after checking it against float64.

    Args:
        wanted: What the configuration says; `auto` takes compiled loops if they may be used.

    Returns:
        TORCH or NUMBA.

    Raises:
        BackendUnavailable: If NUMBA was asked for and may not be used.
    """
    problem = "" if wanted is Backend.TORCH else _problem_with_numba()
    if wanted is Backend.NUMBA and problem:
        msg = f"compute.solver = 'numba' cannot be used: {problem}; 'auto' takes torch instead"
        raise BackendUnavailable(msg)
    compiled = wanted is not Backend.TORCH and not problem
    _chosen["compiled"] = compiled
    if problem:
        _logger.warning("the Sinkhorn updates run in plain torch")
    return Backend.NUMBA if compiled else Backend.TORCH


def dense_solver(cost: LabelledCost, schedule: Schedule, dtype: torch.dtype) -> TransportSolver:
    """Return a solver with the chosen body; float64 is plain torch's.

    Args:
        cost: The ground cost.
        schedule: Temperatures and kinds of updates.
        dtype: Of the images that it will be given.
    """
    if dtype is torch.float32 and _chosen.get("compiled", False):
        return _compiled(cost, schedule)
    return DenseSinkhorn(cost=cost, schedule=schedule)


def _compiled(cost: LabelledCost, schedule: Schedule) -> TransportSolver:
    from curator.divergences.compiled import CompiledSinkhorn  # imports numba

    return CompiledSinkhorn(cost=cost, schedule=schedule)


def _problem_with_numba() -> str:
    """Return why the compiled body may not be used, or nothing."""
    if find_spec("numba") is None:
        return "numba is not installed"
    try:
        worst = _disagreement()
    except Exception:  # noqa: BLE001 - a compiler can fail in any way; the reference body remains
        return "its loops could not be compiled"
    return "" if worst <= _AGREEMENT else "its gradients differ from float64"


def _disagreement() -> float:
    """Return how far the compiled gradients are from float64 on a small problem with padding."""
    cost = LabelledCost(l1_weight=1.0, label_scale=2.0)
    schedule = published(8.0, 0.5)
    images = torch.sin(torch.arange(20 * 24, dtype=torch.float64) * 7.3).reshape(20, 24)
    labels = torch.arange(20) % 3
    padding = torch.full((12,), -torch.inf, dtype=torch.float64)
    padding[:9] = -torch.log(torch.tensor(9.0))
    worst = 0.0
    clouds = {}
    for dtype in (torch.float64, torch.float32):
        first = uniform_points(images[:8].to(dtype), labels[:8])
        second = WeightedPoints(
            images_ND=images[8:].to(dtype), labels_N=labels[8:], log_weights_N=padding.to(dtype)
        )
        clouds[dtype] = (first, second)
    reference = DenseSinkhorn(cost=cost, schedule=schedule).both_gradients(*clouds[torch.float64])
    compiled = _compiled(cost, schedule).both_gradients(*clouds[torch.float32])
    for exact, got in zip(reference, compiled, strict=True):
        worst = max(worst, float((got.double() - exact).norm() / exact.norm()))
    return worst
