"""What a graphics card does with MNIST: DP-Sinkhorn, an embedding's release, training on it.

    python -m benchmarks.gpu [--device cuda] [--quick] [--only error time ...]

Of DP-Sinkhorn errors, times and training rates (`error`, `time`, `noise`, `generator`, `inside`,
`barrier`, and on a card `same` and `kernels`); of an embedding records a second of its release, and
whether rows are the processor's to the bit (`release`), and steps a second of training on a saved
one, eager and as CUDA graphs (`offline`).

Every row stands alone: one that fails says so and the next one is tried. A run takes some minutes.
`--device cpu --quick` takes the same way without a card, to see that it works.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

import torch

from benchmarks import gpu_bodies, gpu_embedding, gpu_training
from benchmarks.rows import compute_as_the_curator
from curator.divergences.backend import Backend, choose_backend
from curator.divergences.device import choose_device

_PACKAGES = ("torch", "triton", "grpcio", "numpy")
Row = dict[str, object]
_started = time.monotonic()


def parts(device: str, *, quick: bool) -> dict[str, Callable[[], Iterator[Callable[[], Row]]]]:
    """Return what yields the rows of each part, in order.

    Args:
        device: Where to compute.
        quick: Whether a few steps are enough.
    """
    repeats, steps = (5, 10) if quick else (300, 2000)
    capacities = (96,) if quick else (96, 112)
    found: dict[str, Callable[[], Iterator[Callable[[], Row]]]] = {
        "error": lambda: gpu_bodies.accuracy(device, capacities),
        "time": lambda: gpu_bodies.times(device, repeats),
        "noise": lambda: gpu_training.noise(device, repeats),
        "generator": lambda: gpu_training.generators(device, repeats),
        "inside": lambda: gpu_training.in_process(device, steps),
        "barrier": lambda: gpu_training.over_the_barrier(device, steps),
        "release": lambda: gpu_embedding.releases(device, quick=quick),
        "offline": lambda: gpu_embedding.offline(device, steps, quick=quick),
    }
    if device != "cpu":
        found = {"same": lambda: gpu_bodies.captured_equals_eager(device), **found}
        found["kernels"] = lambda: gpu_bodies.kernels(device)
    return found


def print_row(row: Row) -> None:
    """Print a row with the seconds since the start."""
    print(json.dumps({**row, "at_s": round(time.monotonic() - _started, 1)}), flush=True)


def main() -> int:
    """Print the rows; returns how many failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", default=[])
    arguments = parser.parse_args()
    compute_as_the_curator()
    choose_device(arguments.device)
    print_row({"benchmark": "machine", **_machine(arguments.device)})
    failed = 0
    try:
        print_row({"benchmark": "chosen body", **choose_backend(Backend.AUTO).facts})
    except Exception:  # noqa: BLE001 - the rows below stand alone
        traceback.print_exc()
    for name, rows in parts(arguments.device, quick=arguments.quick).items():
        if arguments.only and name not in arguments.only:
            continue
        for row in _attempted(name, rows):
            failed += "failed" in row
            print_row(row)
    return failed


def _attempted(name: str, rows: Callable[[], Iterator[Callable[[], Row]]]) -> Iterator[Row]:
    """Yield rows, or what became of them."""
    try:
        for make in rows():
            try:
                yield make()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
                traceback.print_exc()
                yield {"benchmark": name, "failed": f"{type(error).__name__}: {error}"[-600:]}
    except Exception as error:  # noqa: BLE001 - see above
        traceback.print_exc()
        yield {"benchmark": name, "failed": f"{type(error).__name__}: {error}"[-600:]}


def _machine(device: str) -> Row:
    found: Row = {"cores": os.cpu_count(), "python": sys.version.split()[0]}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    if device != "cpu":
        found["card"] = torch.cuda.get_device_name(device)
    return found | {key: os.environ[key] for key in sorted(os.environ) if key.startswith("GRPC_")}


if __name__ == "__main__":
    sys.exit(main())
