"""The barrier's gradient and its release path, beside geomloss and POT in the same run.

    python -m benchmarks.barrier [--repeats 100] [--threads 1]

POT is optional: `pip install pot`. `error` is the relative distance to plain torch in float64; POT
anneals nothing, so after as many updates it is elsewhere.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from benchmarks.problem import contenders, published_problem, reference
from benchmarks.rows import compute_as_the_curator, print_row, summary, timed
from curator.privacy.release import Release
from curator.rpc.codec import encode_answer
from curator.sanitizer.clipped import release_clipped
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.prefetched import PrefetchedNoise
from curator.service.live_run import Answer

_VALUES = 50 * 784


def gradients(repeats: int) -> None:
    """Print a row for each way to compute the gradient.

    Args:
        repeats: Calls of each.
    """
    problem = published_problem()
    exact = reference(problem)
    works = contenders(problem)
    seconds = timed(works, repeats)
    slowest = statistics.median(seconds["geomloss"])
    for name, work in works.items():
        error = (work().double() - exact).norm() / exact.norm()
        print_row(
            benchmark="barrier gradient",
            what=name,
            **summary(seconds[name]),
            times_faster_than_geomloss=round(slowest / statistics.median(seconds[name]), 2),
            error=float(f"{error:.2e}"),
            repeats=repeats,
            threads=torch.get_num_threads(),
        )


def release_path(repeats: int) -> None:
    """Print how long it takes from a gradient to the bytes of its answer, noise drawn ahead.

    Args:
        repeats: Steps; between two of them there is time to draw noise, as there is in training.
    """
    matrix = torch.full((50, 784), 0.1)
    noise = PrefetchedNoise(OsEntropy(), 4 * _VALUES)

    def release() -> Release:
        return release_clipped(
            lambda: matrix, shape=(50, 784), clip_norm=0.5, noise_multiplier=1.1, noise=noise
        )

    def answer() -> bytes:
        done = Answer(step=1, release=release(), spent_epsilon=1.0, budget_epsilon=10.0)
        return encode_answer("0" * 32, done).SerializeToString()

    seconds: list[float] = []
    for _ in range(repeats):
        noise.draw_ahead()
        time.sleep(0.01)
        started = time.perf_counter()
        answer()
        seconds.append(time.perf_counter() - started)
    noise.stop()
    print_row(
        benchmark="release path",
        what="clip, truncate, certify, add prefetched noise, encode",
        **summary(seconds),
        repeats=repeats,
        threads=torch.get_num_threads(),
    )


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    compute_as_the_curator(arguments.threads)
    gradients(arguments.repeats)
    release_path(arguments.repeats)


if __name__ == "__main__":
    main()
