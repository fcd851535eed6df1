"""One step in process, over a Unix socket, TCP and TLS, beside a bare stream of the same sizes.

    python -m benchmarks.transport [--steps 300] [--ways "unix socket" tcp tls] [--rpc-only]
    python -m benchmarks.transport --steps 2000 --side-by-side

Four rows for each way: a bare echo, one that reads what it gets (as little as any barrier in Python
can do), the product with a hollow barrier (the RPC alone: 157 KB up, lattice integers down), and a
whole step. Each has a server process of its own; steps of the four take turns. Rows without a
transport show what the ledger costs.

Side by side, one curator with a hollow barrier is asked over gRPC on its Unix socket and over its
socket for steps, fifty steps of each in turn.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from analyst.tune_process import tune_process
from benchmarks.echo import echo
from benchmarks.inside import mechanism_alone, service
from benchmarks.rows import Work, about, compute_as_the_curator, print_row, summary, timed
from benchmarks.served import Shape, Way, served
from curator.identity.listen import TlsFiles

_SHAPE = Shape()
_UP = 50 * 28 * 28 * 4 + 50 * 8
_DOWN = 50 * 28 * 28 * 4
_MOST_STEPS = 10_000
_IN_A_ROW = 50
_RPC_ALONE = {"rpc alone": "benchmarks.hollow"}
_STEP = {"step": "curator.cli"}


def over(way: Way, steps: int, served_by: Mapping[str, str]) -> None:
    """Print the rows of one way.

    Args:
        way: How the analyst reaches the curator.
        steps: Of each.
        served_by: Modules that serve, by name of the row.
    """
    images, labels = _SHAPE.batch()
    with ExitStack() as stack:
        tls: TlsFiles | None = None
        works: dict[str, Work] = {}
        for name, module in served_by.items():
            curator = stack.enter_context(served(way, _SHAPE, module=module))
            run = curator.open_run(stack.enter_context(curator.connect()), _MOST_STEPS)
            works[name] = lambda run=run: run.gradient(images, labels)  # type: ignore[misc]
            tls = curator.folder.tls if way is Way.TLS else None
        address = "localhost:0"
        for name, reads in (("bare echo", False), ("echo that reads", True)):
            if way in {Way.UNIX, Way.LOCAL}:
                address = f"unix:{stack.enter_context(tempfile.TemporaryDirectory())}/e.sock"
            works[name] = stack.enter_context(echo(address, bytes(_UP), _DOWN, tls, reads=reads))
        warm_up(works)
        seconds = timed(works, steps)
    bare = statistics.median(seconds["bare echo"])
    for name, values in seconds.items():
        print_row(
            **about(),
            benchmark="transport",
            way=str(way),
            what=name,
            **summary(values),
            share_of_bare_rate=round(bare / statistics.median(values), 3),
            share_of_bare_rate_least=round(min(seconds["bare echo"]) / min(values), 3),
            bytes_up=_UP,
            bytes_down=_DOWN,
            steps=steps,
        )


def side_by_side(steps: int) -> None:
    """Print how fast the RPC alone is over both sockets of one curator.

    Args:
        steps: Of each.
    """
    images, labels = _SHAPE.batch()
    with ExitStack() as stack:
        curator = stack.enter_context(served(Way.UNIX, _SHAPE, module="benchmarks.hollow"))
        works: dict[str, Work] = {}
        for way in (Way.UNIX, Way.LOCAL):
            barrier = stack.enter_context(replace(curator, way=way).connect())
            run = curator.open_run(barrier, steps + 1000)
            works[way] = lambda run=run: run.gradient(images, labels)  # type: ignore[misc]
        warm_up(works)
        seconds = timed(works, steps // _IN_A_ROW, _IN_A_ROW)
    by_grpc = seconds[Way.UNIX]
    for name, values in seconds.items():
        print_row(
            **about(),
            benchmark="transport",
            way=str(name),
            what="rpc alone, side by side",
            **summary(values),
            times_rate_of_grpc=round(statistics.median(by_grpc) / statistics.median(values), 3),
            times_rate_of_grpc_least=round(min(by_grpc) / min(values), 3),
            bytes_up=_UP,
            bytes_down=_DOWN,
            steps=steps,
        )


def in_process(steps: int) -> None:
    """Print rows without a transport.

    Args:
        steps: Of each.
    """
    images, labels = _SHAPE.batch()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        alone = stack.enter_context(mechanism_alone(_SHAPE))
        in_memory = stack.enter_context(service(_SHAPE, None))
        durable = stack.enter_context(service(_SHAPE, Path(folder)))
        works: dict[str, Work] = {
            "mechanism alone": lambda: alone(images, labels),
            "service, ledger in memory": lambda: in_memory(images, labels),
            "service, durable ledger": lambda: durable(images, labels),
        }
        warm_up(works)
        seconds = timed(works, steps)
    for name, values in seconds.items():
        print_row(
            **about(),
            benchmark="transport",
            way="in process",
            what=name,
            **summary(values),
            mean_ms=round(1e3 * statistics.fmean(values), 4),
            steps=steps,
        )


def warm_up(works: dict[str, Work]) -> None:
    """Take some steps that do not count: the first blocks of charged steps are small.

    Args:
        works: One step each.
    """
    for work in works.values():
        for _ in range(20):
            work()


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--ways", nargs="*", type=Way, default=list(Way))
    parser.add_argument("--rpc-only", action="store_true", help="no row with a whole step")
    parser.add_argument("--side-by-side", action="store_true", help="both sockets, and no more")
    arguments = parser.parse_args()
    tune_process()
    compute_as_the_curator()
    if arguments.side_by_side:
        side_by_side(arguments.steps)
        return
    if not arguments.rpc_only:
        in_process(arguments.steps)
    for way in arguments.ways:
        over(way, arguments.steps, _RPC_ALONE if arguments.rpc_only else _RPC_ALONE | _STEP)


if __name__ == "__main__":
    main()
