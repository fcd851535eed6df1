"""Training over TLS on loopback, or another way, beside the same training in one process.

    python -m benchmarks.training [--blocks 12] [--recipe dp-sinkhorn-mnist] [--way "local socket"]

Both run the product's own loop with the recipe's generator and Adam on 50 + 10 images; blocks of
steps take turns. `barrier_share` is the part of a step that is spent asking. A block has as many
steps as it takes that most of them follow each other at once, as in a training: the curator that
was left alone for a while wakes slowly, and its first charges are of few steps.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from analyst.client import Run
from analyst.generators.generator import ImageShape
from analyst.recipes import Recipe
from analyst.recipes.load import load_recipe
from analyst.training.loop import Update, train
from analyst.training.run_source import ImageRun
from analyst.training.state import new_state
from analyst.tune_process import tune_process
from benchmarks.inside import Step, mechanism_alone
from benchmarks.rows import about, compute_as_the_curator, memory_mib, print_row, summary
from benchmarks.served import Shape, Way, served
from curator.privacy.release import LatticeBlock, Release

_SHAPE = Shape(num_debias=10)
_BLOCK = 3
_WARM_UP_BLOCKS = 2
_NUM_STEPS = 20_000


@dataclass(kw_only=True)
class TimedRun:
    """An open run that notes how long it was asked."""

    ask: Callable[[Tensor, Tensor], Tensor]
    next_step: int = 1
    num_steps: int = _NUM_STEPS
    run_id: str = ""
    spent_epsilon: float = 0.0
    budget_epsilon: float = 0.0
    asked_seconds: float = 0.0
    while_waiting: Callable[[], None] = lambda: None  # of a run that does not wait, never called

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the gradient of the next step."""
        started = time.perf_counter()
        answer = self.ask(images, labels)
        self.asked_seconds += time.perf_counter() - started
        self.next_step += 1
        return answer

    def close(self) -> None:
        """Leave the run as it is."""


@dataclass(kw_only=True)
class Block:
    """Stops after some steps, and observes nothing."""

    left: int = _BLOCK + 1

    @property
    def asked(self) -> bool:
        """Whether the block is over."""
        self.left -= 1
        return self.left <= 0

    def wait(self, seconds: float) -> bool:
        """Never wait."""
        del seconds
        return True

    def updated(self, update: Update) -> None:
        """Note nothing."""

    def skipped(self, first: int, last: int) -> None:
        """Note nothing."""

    def waiting(self, delay: float, left: float) -> None:
        """Note nothing."""


def remote(run: Run) -> TimedRun:
    """Return a run that asks a curator.

    Args:
        run: Open.
    """

    def ask(images: Tensor, labels: Tensor) -> Tensor:
        run.while_waiting = timed.while_waiting
        return run.gradient(images, labels)

    timed = TimedRun(ask=ask)
    return timed


def local(step: Step) -> TimedRun:
    """Return a run that asks the mechanism in this process.

    Args:
        step: Of the mechanism.
    """

    def ask(images: Tensor, labels: Tensor) -> Tensor:
        return _dense(step(images, labels)).reshape(images.shape)

    return TimedRun(ask=ask)


def blocks(recipe: Recipe, run: ImageRun, side: int = 28, steps: int = _BLOCK) -> Iterator[float]:
    """Yield the seconds of a step, block by block.

    Args:
        recipe: What to train.
        run: What to ask.
        side: Of the images.
        steps: Of a block.
    """
    state = new_state(recipe, ImageShape(channels=1, height=side, width=side, num_classes=10))
    while True:
        block = Block(left=steps + 1)
        started = time.perf_counter()
        train(state, run, recipe, observer=block, stop=block)
        yield (time.perf_counter() - started) / steps


def _dense(release: Release) -> Tensor:
    rows = [
        block.integers * block.grid if isinstance(block, LatticeBlock) else block.values
        for block in release.blocks
    ]
    return torch.cat([one.to(torch.float32) for one in rows])


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--block", type=int, default=_BLOCK, help="steps in a turn")
    parser.add_argument("--recipe", default="dp-sinkhorn-mnist")
    parser.add_argument("--way", type=Way, choices=list(Way), default=Way.TLS)
    arguments = parser.parse_args()
    tune_process()
    compute_as_the_curator()
    recipe = load_recipe(arguments.recipe)
    with (
        served(arguments.way, _SHAPE) as curator,
        curator.connect() as barrier,
        mechanism_alone(_SHAPE) as step,
    ):
        runs = {
            f"remote over {arguments.way}": remote(curator.open_run(barrier, _NUM_STEPS)),
            "in process": local(step),
        }
        loops = {name: blocks(recipe, run, steps=arguments.block) for name, run in runs.items()}
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for loop in loops.values():
            for _ in range(_WARM_UP_BLOCKS):
                next(loop)
        for run in runs.values():
            run.asked_seconds = 0.0
        for _ in range(arguments.blocks):
            for name, loop in loops.items():
                seconds[name].append(next(loop))
        memory = memory_mib(curator.process.pid)
    base = seconds["in process"]
    for name, values in seconds.items():
        row = {f"curator_{key}": value for key, value in memory.items()}
        print_row(
            **about(),
            benchmark="training",
            what=name,
            **summary(values),
            rate_relative_to_in_process=round(
                statistics.median(base) / statistics.median(values), 3
            ),
            rate_relative_to_in_process_least=round(min(base) / min(values), 3),
            barrier_share=round(runs[name].asked_seconds / (arguments.block * sum(values)), 4),
            steps=arguments.block * len(values),
            steps_in_a_turn=arguments.block,
            recipe=arguments.recipe,
            **(row if name != "in process" else {}),
        )


if __name__ == "__main__":
    main()
