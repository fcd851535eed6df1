"""The barrier's gradient on a graphics card: each body's distance from float64, and its time.

The sizes are the published ones: 50 + 10 generated images of 784 pixels, a padded batch of 96 or
112 rows of which 50 are real. Images are noise, or mostly background as digits are.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.problem import Problem, published_problem
from curator.divergences.sinkhorn import DenseSinkhorn, TransportSolver
from curator.mechanisms.dp_sinkhorn_step import CapturedStep, EagerStep, Halves, Step
from curator.privacy.batches import RecordBatch, Samples
from curator.sanitizer.lattice import lattice_radius

_NUM_SAMPLES, _NUM_DEBIAS, _MAX_LEVEL = 50, 10, 255
_WIDE = 1e2  # a clip norm that changes nothing, so that errors are those of the gradient
Row = dict[str, object]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Case:
    """One batch of samples and one of records."""

    problem: Problem
    samples: Samples
    records: RecordBatch

    def halves(self, solver: TransportSolver, device: str, dtype: torch.dtype) -> Halves:
        """Return the halves of a step with a body.

        Args:
            solver: The body.
            device: Where it computes.
            dtype: With what.
        """
        return Halves(
            solver=solver,
            device=torch.device(device),
            dtype=dtype,
            num_samples=_NUM_SAMPLES,
            num_debias=_NUM_DEBIAS,
            capacity=len(self.records.mask_M),
            dimension=self.samples.images_ND.shape[1],
            max_level=_MAX_LEVEL,
            clip_norm=_WIDE,
            radius=lattice_radius(1e-2, sensitivity_in_radii=2),
        )


def case(capacity: int, *, is_sparse: bool) -> Case:
    """Return a case, the same at every call.

    Args:
        capacity: Rows of the padded batch.
        is_sparse: Whether four fifths of the pixels are background.
    """
    problem = published_problem(rows=_NUM_SAMPLES + _NUM_DEBIAS, capacity=capacity)
    generator = torch.Generator().manual_seed(2)
    levels = torch.randint(0, _MAX_LEVEL + 1, problem.records_MD.shape, generator=generator)
    images = problem.images_ND
    if is_sparse:
        levels *= torch.rand(levels.shape, generator=generator) < 0.2
        background = torch.rand(images.shape, generator=generator) < 0.8
        images = torch.where(background, images * 1e-3 - 0.999, images)
    mask = problem.mask_M
    records = RecordBatch(
        levels_MD=(levels * mask.unsqueeze(1)).to(torch.uint8),
        labels_M=problem.record_labels_M,
        mask_M=mask,
        units_M=torch.where(mask, torch.arange(len(mask)), -1),
    )
    return Case(
        problem=problem,
        samples=Samples(images_ND=images.float(), labels_N=problem.labels_N),
        records=records,
    )


def bodies(one: Case, device: str) -> dict[str, Callable[[], TransportSolver]]:
    """Return what makes each body, by name; making one may fail.

    Args:
        one: For its cost and schedule.
        device: Where it computes.
    """
    cost, schedule = one.problem.cost, one.problem.schedule

    def fused() -> TransportSolver:
        from curator.divergences.cuda_sinkhorn import FusedSinkhorn

        return FusedSinkhorn(cost, schedule, torch.device(device))

    def compiled() -> TransportSolver:
        from curator.divergences.compiled import CompiledSinkhorn

        return CompiledSinkhorn(cost=cost, schedule=schedule)

    plain = {"torch": lambda: DenseSinkhorn(cost=cost, schedule=schedule)}
    return plain | ({"numba": compiled} if device == "cpu" else {"triton": fused})


def accuracy(device: str, capacities: tuple[int, ...]) -> Iterator[Callable[[], Row]]:
    """Yield what makes a row for each body and case: the error of its gradient.

    Args:
        device: Where the bodies compute.
        capacities: Of the padded batches.
    """
    for capacity in capacities:
        for is_sparse in (False, True):
            one = case(capacity, is_sparse=is_sparse)
            plain = DenseSinkhorn(cost=one.problem.cost, schedule=one.problem.schedule)
            exact = gradient(one, EagerStep(one.halves(plain, "cpu", torch.float64)))
            for name, make in bodies(one, device).items():

                def row(
                    make: Callable[[], TransportSolver] = make,
                    one: Case = one,
                    exact: Tensor = exact,
                    name: str = name,
                ) -> Row:
                    got = gradient(one, EagerStep(one.halves(make(), device, torch.float32)))
                    return {
                        "benchmark": "error against float64",
                        "what": name,
                        "error": float(f"{(got - exact).norm() / exact.norm():.2e}"),
                        "capacity": len(one.records.mask_M),
                        "images": "sparse" if one.samples.images_ND.mean() < -0.5 else "noise",
                    }

                yield row


def gradient(one: Case, step: Step) -> Tensor:
    """Return all rows of a step in float64, before they are clipped.

    Args:
        one: Samples and records.
        step: How they are computed.
    """
    with step.begun(one.samples) as begun:
        rows = begun.private_rows(one.records).cpu().double()
        return torch.cat([rows, begun.debias_rows().cpu().double()])


def times(device: str, repeats: int) -> Iterator[Callable[[], Row]]:
    """Yield what makes a row for each way: host to host, eagerly and as CUDA graphs.

    Args:
        device: Where the bodies compute.
        repeats: Steps of each.
    """
    one = case(112, is_sparse=True)
    for name, make in bodies(one, device).items():
        for kind in (EagerStep, CapturedStep) if device != "cpu" else (EagerStep,):

            def row(
                make: Callable[[], TransportSolver] = make,
                kind: type[EagerStep | CapturedStep] = kind,
                name: str = name,
            ) -> Row:
                step = kind(one.halves(make(), device, torch.float32))
                seconds = [_seconds(one, step) for _ in range(repeats + 10)][10:]
                low, _, high = statistics.quantiles(seconds, n=4)
                return {
                    "benchmark": "barrier gradient, host to host",
                    "what": f"{name}, {'eager' if kind is EagerStep else 'CUDA graphs'}",
                    "median_us": round(1e6 * statistics.median(seconds), 1),
                    "quartiles_us": round(1e6 * (high - low), 1),
                    "least_us": round(1e6 * min(seconds), 1),
                    "repeats": repeats,
                }

            yield row


def captured_equals_eager(device: str) -> Iterator[Callable[[], Row]]:
    """Yield what makes a row for each body: lattice points of the graphs beside eager ones.

    Args:
        device: A graphics card.
    """
    one = case(112, is_sparse=True)
    for name, make in bodies(one, device).items():

        def row(make: Callable[[], TransportSolver] = make, name: str = name) -> Row:
            halves = one.halves(make(), device, torch.float32)
            captured = gradient(one, CapturedStep(halves)) * (_WIDE / halves.radius)
            eager = gradient(one, EagerStep(halves))
            rows = slice(0, _NUM_SAMPLES)
            apart = (captured[rows] - eager[rows]).abs().max() / (_WIDE / halves.radius)
            return {
                "benchmark": "CUDA graphs beside eager",
                "what": name,
                "largest_difference_in_grid_steps": float(f"{apart:.3g}"),
            }

        yield row


def kernels(device: str) -> Iterator[Callable[[], Row]]:
    """Yield what makes a row for each body: where the card spends the time of a step.

    Args:
        device: A graphics card.
    """
    one = case(112, is_sparse=True)
    for name, make in bodies(one, device).items():

        def row(make: Callable[[], TransportSolver] = make, name: str = name) -> Row:
            step = CapturedStep(one.halves(make(), device, torch.float32))
            for _ in range(5):
                _seconds(one, step)
            with torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CUDA]
            ) as profile:
                for _ in range(20):
                    _seconds(one, step)
            found = sorted(profile.key_averages(), key=lambda event: -event.device_time_total)
            return {
                "benchmark": "kernels of a step",
                "what": name,
                "us_and_calls": {
                    event.key[:60]: [round(event.device_time_total / 20, 1), event.count // 20]
                    for event in found[:16]
                },
            }

        yield row


def _seconds(one: Case, step: Step) -> float:
    started = time.perf_counter()
    with step.begun(one.samples) as begun:
        begun.private_rows(one.records).to("cpu")
        begun.debias_rows().to("cpu")
    return time.perf_counter() - started
