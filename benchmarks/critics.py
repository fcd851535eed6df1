"""How long a warm start of many critics takes, all together and one after the other.

    python -m benchmarks.critics --device cuda --seconds 40

One row a size: milliseconds of one update of all K critics, as the curator makes it and as a loop
over critics that torch trains alone. The loop is timed on a few of its critics, which take equally
long. `largest_difference` is between the losses of these, after the same updates.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from benchmarks.rows import compute_as_the_curator, print_row
from curator.divergences.adam import Ensemble
from curator.divergences.critic_training import (
    CriticOptimizer,
    Minibatch,
    update,
)
from curator.divergences.critics import CriticShape, initial_critics
from curator.divergences.ensemble import (
    CONVOLUTIONS,
    GroupedConvolution,
    PatchedConvolution,
)
from tests.lone_critics import loss_of, train_alone

SIZES = [
    ("mlp", 16, 8, 100),
    ("mlp", 16, 8, 1000),
    ("mlp", 64, 28, 100),
    ("mlp", 64, 28, 1000),
    ("conv", 4, 8, 100),
    ("conv", 4, 8, 1000),
    ("conv", 16, 28, 100),
    ("conv", 16, 28, 1000),
]
UPDATES, ALONE, CLASSES = 4, 4, 10
KINDS: dict[str, type[GroupedConvolution | PatchedConvolution]] = {
    "grouped": GroupedConvolution,
    "patches": PatchedConvolution,
}
OPTIMIZER = CriticOptimizer(learning_rate=1e-4, penalty=10.0)


def batches(shape: CriticShape, count: int, rows: int, device: str) -> list[Minibatch]:
    """Return random minibatches.

    Args:
        shape: Sizes of each critic.
        count: Critics.
        rows: Records of each, and generated images.
        device: Where they are.
    """
    generator = torch.Generator(device).manual_seed(0)

    def uniform(*size: int) -> torch.Tensor:
        return torch.rand(size, generator=generator, device=device)

    def labels(*size: int) -> torch.Tensor:
        drawn = torch.randint(0, CLASSES, size, generator=generator, device=device)
        return torch.nn.functional.one_hot(drawn, CLASSES).float()

    return [
        Minibatch(
            records_KRD=uniform(count, rows, shape.dimension) * 2 - 1,
            record_labels_KRL=labels(count, rows),
            images_ND=uniform(rows, shape.dimension) * 2 - 1,
            image_labels_NL=labels(rows),
            mixing_KR=uniform(count, rows),
        )
        for _ in range(UPDATES)
    ]


def seconds_of(work: Callable[[], object], repeats: int) -> float:
    """Return the least seconds of a call, after one that does not count.

    Args:
        work: To be timed.
        repeats: How often.
    """
    found = []
    for _ in range(repeats + 1):
        _wait()
        started = time.perf_counter()
        work()
        _wait()
        found.append(time.perf_counter() - started)
    return min(found[1:])


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def compare(kind: str, width: int, side: int, count: int, rows: int, device: str) -> None:
    """Time one size and print its row.

    Args:
        kind: Of critic.
        width: Of critic.
        side: Of the images.
        count: Critics.
        rows: Records of each, and generated images.
        device: Where to compute.
    """
    shape = CriticShape(
        kind="mlp" if kind == "mlp" else "conv",
        width=width,
        channels=1,
        height=side,
        pixels_per_row=side,
        num_classes=CLASSES,
    )
    given = batches(shape, count, rows, device)
    first = {name: v.to(device) for name, v in initial_critics(shape, count, 1).items()}
    ensemble = Ensemble.start(first)
    lone = [{name: value[k] for name, value in first.items()} for k in range(min(ALONE, count))]

    def together() -> Ensemble:
        return update(shape, OPTIMIZER, ensemble, given)

    def alone() -> list[dict[str, torch.Tensor]]:
        return [train_alone(shape, OPTIMIZER, one, given, k) for k, one in enumerate(lone)]

    all_seconds = seconds_of(together, 2) / UPDATES
    loop_seconds = seconds_of(alone, 2) / UPDATES / len(lone) * count
    learned, learned_alone = together().critics, alone()
    difference = max(
        abs(
            float(loss_of(shape, OPTIMIZER.penalty, one, given[-1], k).detach())
            - float(loss_of(shape, OPTIMIZER.penalty, another, given[-1], k).detach())
        )
        for k, another in enumerate(learned_alone)
        for one in [{name: value[k] for name, value in learned.items()}]
    )
    print_row(
        benchmark="critics",
        device=torch.cuda.get_device_name() if device == "cuda" else "cpu",
        threads=torch.get_num_threads(),
        critic=kind,
        convolution=CONVOLUTIONS[device].__name__ if kind == "conv" else None,
        width=width,
        image_side=side,
        num_critics=count,
        records_of_each=rows,
        all_together_ms=round(1e3 * all_seconds, 3),
        one_by_one_ms=round(1e3 * loop_seconds, 1),
        times_faster=round(loop_seconds / all_seconds, 1),
        largest_difference=difference,
        warm_start_of_2000_minutes=round(2000 * all_seconds / 60, 2),
    )


def main() -> None:
    """Read the command line and print a row a size, while the time lasts."""
    parser = argparse.ArgumentParser(description="A warm start of many critics")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--convolution", choices=tuple(KINDS), help="not the device's own choice")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="begin no size after these")
    arguments = parser.parse_args()
    if arguments.convolution:
        CONVOLUTIONS[arguments.device] = KINDS[arguments.convolution]
    compute_as_the_curator(arguments.threads)
    started = time.perf_counter()
    for kind, width, side, count in SIZES:
        if time.perf_counter() - started < arguments.seconds:
            compare(kind, width, side, count, arguments.rows, arguments.device)


if __name__ == "__main__":
    main()
