"""Training with one step on its way, and with two, where answers take long.

    python -m benchmarks.depth [--blocks 10] [--latency 20] [--slot 20]

The product's loop trains the recipe of the digits through a real curator: over a relay that holds
every byte back for half of the latency each way; beside a curator whose answers leave in slots; and
with neither. Blocks of steps of both depths take turns.
"""

from __future__ import annotations

import argparse
import queue
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import analyst
from analyst.client import Barrier
from analyst.recipes.load import load_recipe
from analyst.tune_process import tune_process
from benchmarks.rows import ROOT, about, compute_as_the_curator, print_row, summary
from benchmarks.served import ServedCurator, Shape, Way, served
from benchmarks.training import blocks

_SHAPE: Final = Shape(side=8, num_samples=40, num_debias=8, num_records=1437)
_RECIPE: Final = "dp-sinkhorn-digits"
_STEPS: Final = 20
_CHUNK: Final = 1 << 18
_DEPTHS: Final = (1, 2)


@contextmanager
def relayed(port: int, seconds: float) -> Iterator[int]:
    """Give a port whose bytes arrive at another one so much later, and their answers too.

    Args:
        port: Of a curator.
        seconds: Each way.
    """
    command = [sys.executable, "-m", "benchmarks.depth", "--relay", str(port), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        line = process.stdout.readline() if process.stdout is not None else ""
        try:
            yield int(line)
        finally:
            process.kill()


def _relay(port: int, seconds: float) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            near, _ = server.accept()
            far = socket.create_connection(("127.0.0.1", port))
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for pair in ((near, far), (far, near)):
                held: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                threading.Thread(target=_take, args=(pair[0], held), daemon=True).start()
                threading.Thread(
                    target=_pass_on, args=(pair[1], held, seconds), daemon=True
                ).start()


def _take(source: socket.socket, held: queue.SimpleQueue[tuple[float, bytes]]) -> None:
    while data := source.recv(_CHUNK):
        held.put((time.monotonic(), data))


def _pass_on(
    target: socket.socket, held: queue.SimpleQueue[tuple[float, bytes]], seconds: float
) -> None:
    while True:
        came, data = held.get()
        time.sleep(max(0.0, came + seconds - time.monotonic()))
        target.sendall(data)


def _over(curator: ServedCurator, port: int) -> Barrier:
    credentials = curator.folder.root / "analysts" / "a.credentials.json"
    return analyst.connect(f"localhost:{port}", credentials=credentials, insecure_loopback=True)


def measure(name: str, num_blocks: int, latency_ms: float, slot_ms: float) -> None:
    """Print a row for each depth.

    Args:
        name: Of the condition.
        num_blocks: Of each depth.
        latency_ms: Added to a round trip.
        slot_ms: In which answers leave.
    """
    with ExitStack() as stack:
        curator = stack.enter_context(served(Way.TCP, _SHAPE, slot_ms=slot_ms))
        port = curator.port
        if latency_ms:
            port = stack.enter_context(relayed(port, latency_ms / 2000))
        loops: dict[int, Iterator[float]] = {}
        for depth in _DEPTHS:
            barrier = stack.enter_context(_over(curator, port))
            run = curator.open_run(barrier, 10_000)
            recipe = load_recipe(_RECIPE, {"training.depth": depth})
            loops[depth] = blocks(recipe, run, _SHAPE.side, _STEPS)
        seconds: dict[int, list[float]] = {depth: [] for depth in _DEPTHS}
        for loop in loops.values():
            next(loop)
        for _ in range(num_blocks):
            for depth, loop in loops.items():
                seconds[depth].append(next(loop))
    for depth, values in seconds.items():
        print_row(
            **about(),
            benchmark="depth",
            what=name,
            depth=depth,
            **summary(values),
            times_rate_of_depth_one=round(
                statistics.median(seconds[1]) / statistics.median(values), 3
            ),
            times_rate_of_depth_one_least=round(min(seconds[1]) / min(values), 3),
            latency_ms=latency_ms,
            slot_ms=slot_ms,
            steps=_STEPS * num_blocks,
            recipe=_RECIPE,
        )


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--latency", type=float, default=20.0)
    parser.add_argument("--slot", type=float, default=20.0)
    parser.add_argument("--relay", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.relay:
        _relay(int(arguments.relay[0]), float(arguments.relay[1]))
        return
    tune_process()
    compute_as_the_curator()
    measure("as it is", arguments.blocks, 0.0, 0.0)
    measure("latency added", arguments.blocks, arguments.latency, 0.0)
    measure("answers in slots", arguments.blocks, 0.0, arguments.slot)


if __name__ == "__main__":
    main()
