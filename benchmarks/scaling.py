"""How a step grows: with the batch, with the image, and not with the private set.

    python -m benchmarks.scaling [--what batch image set] [--sizes 1000 10000 10000000]

Private sets are memory-mapped files of 4 x 4 images, opened as the curator opens them; the disk's
cache is warm, so the row says what the code costs. Steps of all set sizes take turns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks.inside import mechanism_alone
from benchmarks.rows import Work, compute_as_the_curator, memory_mib, print_row, summary, timed
from benchmarks.served import Shape
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.data.store import open_store, write_store

_BATCHES = (50, 200, 500, 1000, 2000)
_SIDES = (28, 56, 111)  # 784, 3136 and 12321 pixels
_SMALL_SIDE = 4
_SET_SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def batches(repeats: int) -> None:
    """Print a row for each number of generated images, and as many sampled records.

    Args:
        repeats: Steps of each.
    """
    for rows in _BATCHES:
        _alone("batch", Shape(num_records=20 * rows, num_samples=rows, capacity=2 * rows), repeats)


def images(repeats: int) -> None:
    """Print a row for each size of image.

    Args:
        repeats: Steps of each.
    """
    for side in _SIDES:
        _alone("image", Shape(side=side), repeats)


def sets(sizes: list[int], repeats: int) -> None:
    """Print a row for each size of the private set; a batch is 50 records of any.

    Args:
        sizes: Records.
        repeats: Steps of each.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        works: dict[str, Work] = {}
        memory: dict[str, float] = {}
        for size in sizes:
            shape = Shape(side=_SMALL_SIDE, num_records=size)
            before = memory_mib()["own_mib"]
            records = _stored(Path(folder) / str(size), shape)
            step = stack.enter_context(mechanism_alone(shape, records))
            batch = shape.batch()
            works[str(size)] = lambda step=step, batch=batch: step(*batch)  # type: ignore[misc]
            works[str(size)]()
            memory[str(size)] = memory_mib()["own_mib"] - before
        seconds = timed(works, repeats)
        least = seconds[str(sizes[0])]
    for name, values in seconds.items():
        print_row(
            benchmark="scaling",
            what="set",
            num_records=int(name),
            **summary(values),
            relative_to_smallest=round(statistics.median(values) / statistics.median(least), 3),
            relative_to_smallest_least=round(min(values) / min(least), 3),
            own_mib=round(memory[name], 1),
            repeats=repeats,
        )


def _stored(folder: Path, shape: Shape) -> PrivateRecords:
    """Write a set in pieces that fit memory, and open it like the curator."""
    generator = np.random.default_rng(0)
    sizes = (shape.num_records, 1, shape.side, shape.side)
    labels = np.arange(shape.num_records, dtype=np.int64) % 10
    levels = generator.integers(0, 256, sizes, dtype=np.uint8)
    write_store(folder, LabelledImages(levels=levels, labels=labels))
    del levels, labels
    return PrivateRecords(open_store(folder))


def _alone(what: str, shape: Shape, repeats: int) -> None:
    batch = shape.batch()
    with mechanism_alone(shape) as step:
        seconds = timed({"step": lambda: step(*batch)}, max(3, repeats * 50 // shape.num_samples))
    print_row(
        benchmark="scaling",
        what=what,
        rows=shape.num_samples,
        capacity=shape.capacity,
        dimension=shape.side**2,
        **summary(seconds["step"]),
        **memory_mib(),
    )


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", nargs="+", default=["batch", "image", "set"])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(_SET_SIZES))
    parser.add_argument("--repeats", type=int, default=100)
    arguments = parser.parse_args()
    compute_as_the_curator()
    if "batch" in arguments.what:
        batches(arguments.repeats)
    if "image" in arguments.what:
        images(arguments.repeats)
    if "set" in arguments.what:
        sets(arguments.sizes, arguments.repeats)


if __name__ == "__main__":
    main()
