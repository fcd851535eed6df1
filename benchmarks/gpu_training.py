"""Steps per second of the MNIST recipe: generator, step of the barrier, backward pass and Adam."""

from __future__ import annotations

import dataclasses
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from analyst.generators.generator import ImageShape, draw_latents
from analyst.recipes import Recipe
from analyst.recipes.load import load_recipe
from analyst.training.loop import Update, train
from analyst.training.run_source import ImageRun
from analyst.training.state import new_state
from analyst.training.updates import EagerUpdates, Updates
from benchmarks.inside import Step, mechanism_alone
from benchmarks.served import ServedCurator, Shape, Way, served
from benchmarks.training import TimedRun, remote
from benchmarks.tuned import DEFAULT_SWITCH_US
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.entropy import OsEntropy

_SHAPE = Shape(num_debias=10, capacity=112)
_IMAGES = ImageShape(channels=1, height=28, width=28, num_classes=10)
_ROWS, _NUM_STEPS = 60, 20_000
_WARM_UPS = 300  # the first blocks of charged steps are small, and graphs are captured
Row = dict[str, object]


@dataclass(kw_only=True)
class Clocked:
    """Observes and stops: when each update came, until there are enough."""

    steps: int
    seconds: float
    times: list[float] = field(default_factory=list)

    @property
    def asked(self) -> bool:
        """Whether there are enough updates, or it has taken too long."""
        late = bool(self.times) and time.perf_counter() - self.times[0] > self.seconds
        return late or len(self.times) > self.steps

    def wait(self, seconds: float) -> bool:
        """Wait as training would."""
        time.sleep(seconds)
        return False

    def updated(self, update: Update) -> None:
        """Note the time."""
        del update
        self.times.append(time.perf_counter())

    def skipped(self, first: int, last: int) -> None:
        """Note nothing."""

    def waiting(self, delay: float, left: float) -> None:
        """Note nothing."""


def recipe_on(device: str, *, cuda_graph: bool) -> Recipe:
    """Return the MNIST recipe with a generator on a device.

    Args:
        device: Where.
        cuda_graph: Whether its steps are captured.
    """
    return load_recipe(
        "dp-sinkhorn-mnist", {"session.device": device, "session.cuda_graph": cuda_graph}
    )


def rate(recipe: Recipe, run: ImageRun, steps: int, seconds: float) -> Row:
    """Train and return the rate of the steps after the first ones.

    Args:
        recipe: What to train.
        run: What to ask.
        steps: At most, after the first ones.
        seconds: At most, all together.
    """
    warm_ups = min(_WARM_UPS, steps)
    clock = Clocked(steps=warm_ups + steps, seconds=seconds)
    state = new_state(recipe, _IMAGES)
    train(state, run, recipe, observer=clock, stop=clock)
    begun = min(warm_ups, len(clock.times) // 2)
    counted = np.diff(clock.times[begun:])
    found: Row = {
        "steps_per_second": round(1 / float(counted.mean()), 1),
        "median_step_us": round(1e6 * float(np.median(counted))),
        "least_step_us": round(1e6 * float(counted.min())),
        "steps": len(counted),
    }
    if isinstance(run, TimedRun):
        found["asked_share"] = round(run.asked_seconds / (clock.times[-1] - clock.times[0]), 3)
    return found


def generators(device: str, repeats: int) -> Iterator[Callable[[], Row]]:
    """Yield what makes a row for each way to run the generator and Adam, without a barrier.

    Args:
        device: Where.
        repeats: Steps of each.
    """
    formats = {"contiguous": torch.contiguous_format, "channels last": torch.channels_last}
    for name in ("eager", *(formats if device != "cpu" else ())):

        def row(name: str = name) -> Row:
            recipe = recipe_on(device, cuda_graph=name != "eager")
            state = new_state(recipe, _IMAGES)
            updates: Updates = EagerUpdates(state, device)
            if name != "eager":
                from analyst.training.captured import CapturedUpdates

                updates = CapturedUpdates(state, torch.device(device), formats[name])
            labels = torch.arange(_ROWS) % 10
            latents = draw_latents("uniform", _ROWS, state.model.latent_dim, state.randomness)
            seconds = []
            for _ in range(repeats + 5):
                started = time.perf_counter()
                images = updates.images(latents, labels).to("cpu")
                updates.apply(images * 1e-3, 1e-5)
                seconds.append(time.perf_counter() - started)
            return {
                "benchmark": "generator, backward pass and Adam alone",
                "what": name if name == "eager" else f"CUDA graphs, {name}",
                "median_us": round(1e6 * statistics.median(seconds[5:])),
                "least_us": round(1e6 * min(seconds[5:])),
                "repeats": repeats,
            }

        yield row


def in_process(device: str, steps: int) -> Iterator[Callable[[], Row]]:
    """Yield what makes a row of training with the mechanism in this process.

    Args:
        device: Of both.
        steps: Of each.
    """

    def row(noise_on: str, switch_us: float, *, cuda_graph: bool) -> Row:
        sys.setswitchinterval(1e-6 * switch_us)
        try:
            with mechanism_alone(_SHAPE, noise_on=noise_on) as step:
                measured = rate(
                    recipe_on(device, cuda_graph=cuda_graph), TimedRun(ask=_asking(step)), steps, 6
                )
        finally:
            sys.setswitchinterval(1e-6 * DEFAULT_SWITCH_US)
        return {
            "benchmark": "training in process",
            "generator": "CUDA graphs" if cuda_graph else "eager",
            "noise_on": noise_on,
            "switch_us": switch_us,
        } | measured

    yield lambda: row("cpu", DEFAULT_SWITCH_US, cuda_graph=False)
    if device == "cpu":
        return
    yield lambda: row("cpu", DEFAULT_SWITCH_US, cuda_graph=True)
    yield lambda: row("cpu", 100.0, cuda_graph=True)
    yield lambda: row(device, DEFAULT_SWITCH_US, cuda_graph=True)


def over_the_barrier(device: str, steps: int) -> Iterator[Callable[[], Row]]:
    """Yield what makes a row of training with a curator in a process of its own.

    Args:
        device: Of both.
        steps: Of each way.
    """
    tuned: dict[str, str] = {}

    def row(curator: ServedCurator, way: Way) -> Row:
        with dataclasses.replace(curator, way=way).connect() as barrier:
            run = curator.open_run(barrier, _NUM_STEPS)
            recipe = recipe_on(device, cuda_graph=device != "cpu")
            measured = rate(recipe, remote(run), steps, 10)
            run.close()
        return {"benchmark": "training over the barrier", "way": str(way)} | tuned | measured

    with served(Way.UNIX, _SHAPE, device=device) as curator:
        yield lambda: row(curator, Way.UNIX)
        yield lambda: row(curator, Way.TCP)
    with served(Way.TLS, _SHAPE, device=device) as curator:
        yield lambda: row(curator, Way.TLS)
    if device == "cpu":
        return
    for tuned in ({"BENCH_SWITCH_US": "100"}, {"BENCH_NOISE_ON": device}):
        os.environ.update(tuned)
        with served(Way.UNIX, _SHAPE, module="benchmarks.tuned", device=device) as curator:
            yield lambda: row(curator, Way.UNIX)
        for name in tuned:
            del os.environ[name]


def noise(device: str, repeats: int) -> Iterator[Callable[[], Row]]:
    """Yield what makes a row of the noise of one step, drawn here and on the card.

    Args:
        device: A graphics card, or the processor.
        repeats: Draws of each.
    """
    for where in {"cpu": None, device: None}:

        def row(where: str = where) -> Row:
            source = OsEntropy(torch.device(where))
            seconds = []
            for _ in range(repeats + 5):
                started = time.perf_counter()
                source.discrete_gaussian(50 * 784)
                seconds.append(time.perf_counter() - started)
            return {
                "benchmark": "noise of one step",
                "what": f"inverted on {where}",
                "median_us": round(1e6 * statistics.median(seconds[5:])),
                "repeats": repeats,
            }

        yield row


def _asking(step: Step) -> Callable[[Tensor, Tensor], Tensor]:
    def ask(images: Tensor, labels: Tensor) -> Tensor:
        release = step(images.to("cpu"), labels.to("cpu"))
        return _dense(release).reshape(images.shape).to(images.device)

    return ask


def _dense(release: Release) -> Tensor:
    parts = [
        np.multiply(block.integers.numpy(), block.grid, dtype=np.float64)
        if isinstance(block, LatticeBlock)
        else block.values.numpy()
        for block in release.blocks
    ]
    return torch.from_numpy(np.concatenate([part.astype(np.float32) for part in parts]))
