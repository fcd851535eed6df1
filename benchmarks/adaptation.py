"""Domain adaptation, MNIST to USPS or back: what the barrier costs, beside methods without one.

python -m benchmarks.adaptation --data DIR [--methods source swd private ...] [--seeds 0 1 2]

DIR holds mnist.npz and usps.npz; --source and --target name others. Prints one JSON row for each
method and seed: accuracy on the target's public test part, which no method trains on. `private`
runs through a real curator with a budget of (--epsilon, --delta), whose data set has no labels; all
others read the target freely:

source    the labelled source alone
swd       sliced Wasserstein distance as published: it moves the extractor, through both domains
noiseless the recipe's own method without noise: what `private` would be at epsilon infinity
dann      adversarial, with a gradient reversal
dp-dann   the same with DP-SGD on the target's domain loss, in simulation
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import analyst
from analyst.adaptation.loop import adapt
from analyst.adaptation.networks import DomainClassifier
from analyst.adaptation.public_images import accuracy, read_public
from analyst.adaptation.recipe import AdaptationRecipe, MoveSourceConfig, load_adaptation
from analyst.adaptation.session import AdaptationOptions, load_adapted, start_adaptation
from analyst.adaptation.state import new_adaptation
from analyst.generators.generator import ImageShape
from analyst.training.progress import Progress
from analyst.training.stop import StopRequest
from benchmarks.adaptation_baselines import (
    NoiselessRun,
    Penalty,
    adversarial,
    averaged,
    private_adversarial,
    run_baseline,
    sliced,
)
from benchmarks.rows import print_row
from curator.administration.add_dataset import add_dataset
from curator.config import CuratorConfig, GrpcSection, RestSection
from curator.folder import initialise
from curator.privacy.budget import Budget
from curator.privacy.facts import DatasetFacts
from curator.process.bootstrap import create_curator

METHODS = ("source", "swd", "dann", "dp-dann", "noiseless", "private")


def curator_facts(recipe: AdaptationRecipe, target: np.ndarray, budget: Budget) -> DatasetFacts:
    """Return what a steward would declare: one class, since there are no labels."""
    given = recipe.mechanism
    rate = (given.expected_batch_size or 0) / len(target)
    return DatasetFacts.model_validate(
        {
            "name": recipe.training.dataset,
            "channels": 1,
            "height": target.shape[1],
            "width": target.shape[2],
            "max_level": 255,
            "classes": ("image",),
            "nominal_size": len(target),
            "max_size": given.max_size,
            "sampling_rate": rate,
            "capacity": given.capacity,
            "relation": "add-or-remove",
            "unit": "record",
            "epsilon": budget.epsilon,
            "delta": budget.delta,
        }
    )


def through_the_barrier(
    recipe: AdaptationRecipe, target: np.ndarray, source: Path, budget: Budget
) -> tuple[DomainClassifier, float]:
    """Serve the target, adapt to it through gRPC, and return the classifier and spent epsilon."""
    with tempfile.TemporaryDirectory(prefix="weir-adaptation-") as root:
        unlabelled = Path(root) / "target.npz"
        np.savez(unlabelled, images=target, labels=np.zeros(len(target), dtype=np.int64))
        folder = initialise(Path(root) / "curator")
        add_dataset(folder, curator_facts(recipe, target, budget), str(unlabelled))
        folder.add_analyst("analyst")
        config = CuratorConfig(grpc=GrpcSection(port=0), rest=RestSection(port=0))
        curator = create_curator(folder, config)
        curator.start()
        credentials = folder.root / "analysts" / "analyst.credentials.json"
        address = f"localhost:{curator.rpc.port}"
        try:
            with analyst.connect(address, credentials=credentials) as barrier:
                options = AdaptationOptions(
                    out=Path(root) / "run",
                    source=source,
                    progress=Progress(io.StringIO()),
                    stop=StopRequest(),
                )
                start_adaptation(barrier, recipe, options)
                spent = barrier.budget(recipe.training.dataset).spent
            return load_adapted(Path(root) / "run")[0], spent
        finally:
            curator.draining.set()
            curator.wait()


def measure(
    method: str, seed: int, arguments: argparse.Namespace, budget: Budget
) -> dict[str, object]:
    """Run one method with one seed."""
    changes = {key: json.loads(value) for key, value in map(split, arguments.assignments)}
    recipe = load_adaptation(arguments.recipe, {**changes, "training.seed": seed})
    path = arguments.data / arguments.source
    with np.load(arguments.data / arguments.target) as archive:
        target = archive["x_train"]
    shape = ImageShape(channels=1, height=target.shape[1], width=target.shape[2], num_classes=10)
    source = read_public(path, shape)
    test = read_public(arguments.data / arguments.target, shape, part="test")
    pixels = torch.from_numpy(target).unsqueeze(1).float() / 127.5 - 1
    penalties: dict[str, Callable[[], Penalty | None]] = {
        "source": lambda: None,
        "swd": lambda: sliced(recipe, pixels, arguments.weight),
        "dann": lambda: adversarial(recipe, pixels, arguments.reversal),
        "dp-dann": lambda: private_adversarial(recipe, pixels, arguments.reversal, budget),
    }
    started, spent = time.monotonic(), None
    if method == "private":
        model, spent = through_the_barrier(recipe, target, path, budget)
    elif method == "noiseless":
        mapped = isinstance(recipe.move, MoveSourceConfig)
        raw = read_public(path, shape, resized=not mapped)
        state = new_adaptation(recipe, shape, raw.images_NCHW)
        run = NoiselessRun(recipe, shape, pixels)
        adapt(state, run, recipe, raw, observer=Nobody(), stop=StopRequest())
        model = averaged(state)
    else:
        model = run_baseline(recipe, shape, source, penalties[method]())
    return {
        "method": method,
        "seed": seed,
        "accuracy": round(accuracy(model, test), 5),
        "spent_epsilon": spent,
        "delta": budget.delta,
        "recipe": arguments.recipe,
        "changes": arguments.assignments,
        "seconds": round(time.monotonic() - started, 1),
    }


class Nobody:
    """Takes no notice of an update."""

    def updated(self, update: object) -> None:
        """Take no notice."""

    def skipped(self, first: int, last: int) -> None:
        """Take no notice."""

    def waiting(self, delay: float, left: float) -> None:
        """Take no notice."""


def split(assignment: str) -> tuple[str, str]:
    """Return key and value of KEY=VALUE."""
    key, _, value = assignment.partition("=")
    return key, value


def main() -> None:
    """Run the methods one after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--source", default="mnist.npz", metavar="FILE")
    parser.add_argument("--target", default="usps.npz", metavar="FILE")
    parser.add_argument("--recipe", default="mnist-to-usps", metavar="NAME|FILE.toml")
    parser.add_argument("--set", dest="assignments", action="append", default=[], metavar="K=V")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--weight", type=float, default=1.0, help="of swd [1]")
    parser.add_argument("--reversal", type=float, default=0.3, help="weight of DANN [0.3]")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    budget = Budget(epsilon=arguments.epsilon, delta=arguments.delta)
    for seed in arguments.seeds:
        for method in arguments.methods:
            print_row(**measure(method, seed, arguments, budget))


if __name__ == "__main__":
    main()
