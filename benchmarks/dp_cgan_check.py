"""What the proof of DP-CGAN assumes of a device's arithmetic, tried on it; and its speed.

Trains nothing: it times updates, and holds what the proof assumes of the arithmetic against the
device (rows of a batch do not touch each other; sums of integers are exact).

    python -m benchmarks.dp_cgan_check --device cuda [--recipe dp-cgan-mnist]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from analyst.recipes import Recipe, load_recipe
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.divergences.device import choose_device, compute_device
from curator.divergences.dp_critic import Examples, example_slopes
from curator.mechanisms.dp_cgan import DpCgan, DpCganSpec, dp_critic_shape
from curator.privacy.batches import ImageSpace, Samples
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.example_sum import certified
from curator.sanitizer.gaussian_on_device import discrete_gaussian_on_device
from curator.sanitizer.lattice import LATTICE_STD

SIZE = 60_000
SPACE = ImageSpace(channels=1, height=28, width=28, max_level=255, num_classes=10)


class Facts:
    """Public facts of a data set like MNIST."""

    nominal_size = SIZE
    capacity = SIZE
    classes = tuple("0123456789")


def check(recipe: Recipe, device: str) -> dict[str, Any]:
    """Return whether the arithmetic is as assumed, and seconds of an update and a step.

    Args:
        recipe: Of DP-CGAN on MNIST.
        device: Where to compute.
    """
    choose_device(device)
    mechanism = DpCgan(DpCganSpec(**recipe.mechanism.parameters(Facts())), SPACE)
    wrong = [*rows_that_touch(mechanism), *sums_that_round(), *noise_that_is_off()]
    return {"device": device, "exact": not wrong, "wrong": wrong, **speed(mechanism)}


def rows_that_touch(mechanism: DpCgan) -> Iterator[str]:
    """Change one row of a batch to other images: the other rows keep every bit."""
    device = compute_device()
    state, shape = mechanism.start(iter(())), dp_critic_shape(mechanism.spec, SPACE)
    generator = torch.Generator().manual_seed(1)
    images = (torch.rand((512, SPACE.dimension), generator=generator) * 2 - 1).to(device)
    onehot = torch.eye(10, device=device)[torch.arange(512, device=device) % 10]
    others = torch.arange(512, device=device) != 77

    def slopes(given: Tensor) -> list[Tensor]:
        examples = Examples(images_ND=given, onehot_NL=onehot, are_records=True)
        return example_slopes(shape, state.critic.values, examples)

    base = slopes(images)
    for value in (-1.0, 0.3, 1.0):
        changed = images.clone()
        changed[77] = value
        for number, (one, other) in enumerate(zip(base, slopes(changed), strict=True)):
            if not torch.equal(one[others], other[others]):
                yield f"rows touch in part {number} when one is {value}"


def sums_that_round() -> Iterator[str]:
    """Hold certificates and sums against exact integers, close to the bound."""
    device = compute_device()
    generator = torch.Generator().manual_seed(2)
    radius = 33_000
    points = torch.randint(-60, 61, (64, 300_000), generator=generator)
    exact = points.square().sum(dim=1)
    got = certified([points.to(device, torch.float32)], radius).cpu()
    if bool((got & (exact > radius**2)).any()) or bool((~got & (exact < 0.99 * radius**2)).any()):
        yield "a certificate is wrong"
    bound = int(exact[0])
    for radius in (int(bound**0.5), int(bound**0.5) + 1):
        got = certified([points[:1].to(device, torch.float32)], radius).cpu()
        if bool(got) and bound > radius**2:
            yield "a certificate is given above the bound"
    large = torch.randint(radius - 9, radius + 1, (512, 4096), generator=generator)
    summed = torch.split(large.to(device, torch.float32), 2**24 // radius)
    total = torch.stack([some.sum(dim=0) for some in summed]).sum(dim=0, dtype=torch.float64)
    if not torch.equal(total.cpu().to(torch.int64), large.sum(dim=0)):
        yield "a sum of integers is rounded"


def noise_that_is_off() -> Iterator[str]:
    """Compare 4 million draws on the device with their law: 6 standard errors."""
    source, device, count = OsEntropy(), compute_device(), 4_000_000

    def words(number: int) -> Tensor:
        return source.uniform_words(number).to(device)

    drawn = discrete_gaussian_on_device(count, words, words).double()
    if abs(float(drawn.std()) / LATTICE_STD - 1) > 6 / (2 * count) ** 0.5:
        yield "the noise has another deviation"
    if abs(float(drawn.mean())) > 6 * LATTICE_STD / count**0.5:
        yield "the noise has another mean"


def speed(mechanism: DpCgan, num_steps: int = 5) -> dict[str, float]:
    """Return the median seconds of a step at the curator, and of one of its updates."""
    noise = OsEntropy()
    levels = np.random.default_rng(3).integers(0, 256, (SIZE, 1, 28, 28), dtype=np.uint8)
    images = PrivateRecords(LabelledImages(levels=levels, labels=np.arange(SIZE) % 10), SIZE)

    def samples() -> Iterator[Any]:
        while True:
            yield images.poisson_batch(mechanism.spec.rate, mechanism.spec.capacity, noise)

    rows = mechanism.spec.num_samples
    given = Samples(
        images_ND=torch.zeros((rows, SPACE.dimension)), labels_N=torch.arange(rows) % 10
    )
    state, seconds = mechanism.start(samples()), []
    for _ in range(num_steps):
        started = time.perf_counter()
        state, _ = mechanism.gradient(state, given, noise)
        seconds.append(time.perf_counter() - started)
    step = sorted(seconds[1:])[(num_steps - 1) // 2]
    started = time.perf_counter()
    for _ in range(num_steps):
        next(state.samples)
    sampling = (time.perf_counter() - started) / num_steps
    return {
        "step_seconds": round(step, 4),
        "updates_per_second": round(mechanism.spec.critic_steps / step, 2),
        "sampling_seconds": round(sampling, 4),
        "parameters": dp_critic_shape(mechanism.spec, SPACE).num_parameters,
    }


def main() -> int:
    """Check a device; return 1 if its arithmetic is not as assumed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="dp-cgan-mnist", metavar="NAME|FILE.toml")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    row = check(load_recipe(arguments.recipe, {}), arguments.device)
    print(json.dumps(row), flush=True)
    return 0 if row["exact"] else 1


if __name__ == "__main__":
    sys.exit(main())
