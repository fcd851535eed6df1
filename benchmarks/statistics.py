"""Statistics of public features as classifiers, beside the mean embedding of scattering.

python -m benchmarks.statistics network OUT --data FOLDER      train a small network on USPS
python -m benchmarks.statistics make NETWORK --set digits ...  print rows of accuracy

`digits` is MNIST; `colours` is MNIST with the ink and the ground of every image in a colour of its
own, 28x28x3. Both mechanisms release once, of the same records, at the same epsilon by the ledger's
rule, and what they release is a classifier at once: of `feature-statistics` that of the class
Gaussians, of `mean-embedding` the nearest class mean. A row also has what the network knows without
a private record (`public_head`), where it has a head.

The records are the first images of the training part. Settings were chosen by the test part, so
rows are of images that nobody looked at: those of the training part that are no records, of which
every seed draws its own, beside its own noise. Where all of them are records, rows are of the test
part and say so (`tested_on`).

--data is the folder with mnist.npz and usps.npz. A published network is folded by
'python scripts/fold_network.py'.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import shlex
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import affine_grid, cross_entropy, grid_sample, interpolate, pad, relu

from analyst.adaptation.networks import Extractor, build_extractor
from analyst.adaptation.public_images import PublicImages, accuracy
from analyst.embedding.file import SavedEmbedding
from analyst.embedding.gaussians import RIDGE, ClassGaussians, split_statistics
from analyst.embedding.offline import class_means, map_of
from analyst.evaluation.image_file import LabelledImages as Images
from analyst.generators.generator import ImageShape, initialise
from analyst.recipes import load_recipe
from benchmarks.papers.data import read_data
from benchmarks.papers.rows import processor
from benchmarks.rows import compute_as_the_curator, print_row
from curator.accounting.cost import event_cost
from curator.accounting.rule import BudgetRule
from curator.administration.add_network import NewNetwork, add_network
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.mechanisms.base import ReleasedOnceMechanism
from curator.mechanisms.catalogue import parse_mechanism, read_specification
from curator.mechanisms.feature_statistics import FeatureStatistics
from curator.mechanisms.mean_embedding import MeanEmbedding
from curator.mechanisms.public_networks import DECLARED, choose_networks
from curator.privacy.batches import ImageSpace
from curator.privacy.budget import Budget
from curator.sanitizer.entropy import OsEntropy
from curator.sanitizer.post_process import release_values
from curator.state.asking import private_batches

_FEATURES: Final = 128
_EPOCHS: Final = 10
_BATCH: Final = 64
_INSIDE, _FRAME = 20, 4  # as MNIST's digits lie in their frame
_HALVINGS: Final = 30
_INKS: Final = 1  # the seed of the records' colours; settings were chosen on colours of the next

CHOICES: Final[dict[str, dict[str, Any]]] = {
    "cnn-features": {"num_features": _FEATURES, "stages": [], "moment_width": _FEATURES},
    "efficientnet-lite0": {"stages": [4], "cells": 2, "enlarged": 2, "moment_width": 256},
}
"""What is asked of each network; chosen by the accuracy on the test part."""


_KINDS: Final[dict[str, type[FeatureStatistics | MeanEmbedding]]] = {
    "feature-statistics": FeatureStatistics,
    "mean-embedding": MeanEmbedding,
}


@torch.no_grad()
def _moved(images_NCHW: Tensor, randomness: torch.Generator) -> Tensor:
    """Return digits turned, scaled, sheared, shifted and inked at random."""
    count = len(images_NCHW)

    def drawn(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=randomness)

    angle, shear = drawn(-0.25, 0.25), drawn(-0.25, 0.25)
    wide, tall = 1 / drawn(0.75, 1.25), 1 / drawn(0.8, 1.2)
    zero = drawn(-0.1, 0.1)
    rows = (
        torch.stack((angle.cos() * wide, (shear - angle.sin()) * tall, zero), dim=1),
        torch.stack((angle.sin() * wide, angle.cos() * tall, drawn(-0.1, 0.1)), dim=1),
    )
    size = list(images_NCHW.shape)
    grid = affine_grid(torch.stack(rows, dim=1), size, align_corners=False)
    inked = grid_sample(images_NCHW, grid, align_corners=False)
    inked = inked * drawn(0.8, 2.3).reshape(-1, 1, 1, 1) - drawn(0, 0.2).reshape(-1, 1, 1, 1)
    return inked.clamp(0, 1) * 2 - 1


def train_network(given: argparse.Namespace) -> int:
    """Train the features of USPS digits laid into MNIST's frame, with a head that is kept too."""
    data = read_data("usps", given.data).private
    images = torch.from_numpy(data.images).float() / 255
    images = pad(interpolate(images, (_INSIDE, _INSIDE), mode="bilinear"), (_FRAME,) * 4)
    labels, randomness = torch.from_numpy(data.labels), torch.Generator().manual_seed(0)
    shape = ImageShape(channels=1, height=28, width=28, num_classes=10)
    extractor = build_extractor("cnn-features", shape, _FEATURES)
    model = nn.Sequential(extractor, nn.ReLU(), nn.Linear(_FEATURES, 10))
    initialise(model, randomness)
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(_EPOCHS):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * (1 - epoch / _EPOCHS)
        order = torch.randperm(len(labels), generator=randomness)
        for rows in torch.split(order, _BATCH):
            loss = cross_entropy(model(_moved(images[rows], randomness)), labels[rows])
            optimizer.zero_grad()
            torch.autograd.backward([loss])
            optimizer.step()
    save_file(dict(extractor.state_dict()), given.out)
    save_file(dict(model[2].state_dict()), _head_file(given.out))
    return 0


def _head_file(network: Path) -> Path:
    return network.with_suffix(".head.safetensors")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Split:
    """Records, and images to test on with a word for which they are."""

    private: Images
    test: Images
    tested_on: str


def read_set(name: str, folder: Path | None, sizes: tuple[int, int], seed: int) -> _Split:
    """Return images of MNIST, perhaps in colours.

    Args:
        name: `digits` or `colours`.
        folder: Of mnist.npz.
        sizes: Numbers of records and of images to test on.
        seed: Which images of the training part are tested on, and in which colours.

    Raises:
        SystemExit: If so many are not left of the training part, and not none.
    """
    size, tests = sizes
    data = read_data("mnist", folder)
    private, (rest, labels) = data.private, (data.private.images[size:], data.private.labels[size:])
    if len(labels):
        if tests > len(labels):
            message = f"{len(labels)} images are no records: give --tests of at most that many"
            raise SystemExit(message)
        drawn = np.random.default_rng(seed).permutation(len(labels))[:tests]
        test, tested_on = Images(rest[drawn], labels[drawn]), "training part, no records"
    else:
        test, tested_on = Images(data.test.images[:tests], data.test.labels[:tests]), "test part"
    records = Images(private.images[:size], private.labels[:size])
    if name == "colours":
        records, test = _coloured(records, _INKS), _coloured(test, _INKS + 2 + seed)
    return _Split(private=records, test=test, tested_on=tested_on)


def _coloured(images: Images, seed: int) -> Images:
    """Return images whose ink is lighter than their ground, in colours drawn for each."""
    drawn, count = np.random.default_rng(seed), len(images.labels)
    ink, ground = drawn.uniform(0.5, 1, (count, 3, 1, 1)), drawn.uniform(0, 0.5, (count, 3, 1, 1))
    share = images.images.astype(np.float64) / 255
    levels = np.round(255 * (ground + (ink - ground) * share)).astype(np.uint8)
    return Images(levels, images.labels)


class _Nearest(nn.Module):
    """The class whose mean is nearest."""

    def __init__(self, embedding: SavedEmbedding) -> None:
        super().__init__()
        self._rows_of, self._means = map_of(embedding), class_means(embedding)

    def forward(self, images: Tensor) -> Tensor:
        rows = self._rows_of(images).to(torch.float64)
        return rows @ self._means.T - self._means.square().sum(dim=1) / 2


class _Head(nn.Module):
    """What the network was trained to say."""

    def __init__(self, network: Path, extractor: Extractor) -> None:
        super().__init__()
        extractor.load_state_dict(load_file(network))
        self._extractor, self._head = extractor, load_file(_head_file(network))

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        return relu(self._extractor(images)) @ self._head["weight"].T + self._head["bias"]


class _Trial:
    """Records, test images, and what is asked of them at an epsilon."""

    def __init__(self, given: argparse.Namespace, seed: int) -> None:
        self._given = given
        split = read_set(given.set, given.data, (given.size, given.tests), seed)
        private, test, self.tested_on = split.private, split.test, split.tested_on
        _, channels, height, width = private.images.shape
        self.shape = ImageShape(channels=channels, height=height, width=width, num_classes=10)
        self._space = ImageSpace(
            channels=channels, height=height, width=width, max_level=255, num_classes=10
        )
        self._records = PrivateRecords(
            LabelledImages(levels=private.images, labels=private.labels), given.size
        )
        pixels = torch.from_numpy(test.images).float() / 127.5 - 1
        labels = torch.from_numpy(test.labels)
        self._test = PublicImages(images_NCHW=pixels, labels_N=labels, digest="")
        self._rule = BudgetRule.register(Budget(epsilon=given.epsilon, delta=given.delta))

    def run(self, name: str, parameters: dict[str, Any], noises: tuple[str, ...]) -> dict[str, Any]:
        """Release once with the least noise that the budget allows, and classify."""
        given = self._given
        low, high = 0.3, 1000.0
        for _ in range(_HALVINGS):
            middle = (low * high) ** 0.5
            fits = self._epsilon(name, parameters | dict.fromkeys(noises, middle)) <= given.epsilon
            low, high = (low, middle) if fits else (middle, high)
        chosen = parameters | dict.fromkeys(noises, high)
        mechanism, started = self._asked(name, chosen), time.process_time()
        noise = OsEntropy()
        release = mechanism.setup(private_batches(mechanism, self._records, noise), noise)
        row: dict[str, Any] = {
            "noise_multiplier": round(high, 4),
            "epsilon": round(self._epsilon(name, chosen), 6),
            "core_seconds": round(time.process_time() - started, 1),
        }
        model = self._classifier(chosen, release_values(release))
        return row | {"accuracy": self.accuracy(model)}

    def accuracy(self, model: nn.Module) -> float:
        """Return percents of test images."""
        return round(100 * accuracy(model, self._test), 2)

    def _asked(self, name: str, parameters: dict[str, Any]) -> ReleasedOnceMechanism:
        made = parse_mechanism(name, json.dumps(parameters), self._space)
        if not isinstance(made, ReleasedOnceMechanism):
            raise TypeError(name)
        return made

    def _epsilon(self, name: str, parameters: dict[str, Any]) -> float:
        spec = read_specification(name, json.dumps(parameters))
        event, _ = _KINDS[name].costs_of(spec, self._space)
        return self._rule.spent_epsilon(event_cost(event))

    def _classifier(self, parameters: dict[str, Any], values: Tensor) -> nn.Module:
        facts = {
            "name": self._given.set,
            "channels": self.shape.channels,
            "height": self.shape.height,
            "width": self.shape.width,
            "classes": [str(label) for label in range(10)],
        }
        saved = SavedEmbedding(run_id="", dataset=facts, parameters=parameters, sums_KR=values)
        if "network" not in parameters:
            return _Nearest(saved)
        moments, sums = split_statistics(values, parameters, self.shape)
        saved = SavedEmbedding(
            run_id="",
            dataset=facts,
            parameters=parameters,
            sums_KR=sums,
            moments=moments,
            network=load_file(self._given.network),
        )
        return ClassGaussians.of(saved, self._given.ridge).classifier()


def make_rows(given: argparse.Namespace) -> int:
    """Print a row for each seed and method."""
    compute_as_the_curator(given.threads)
    told = {"set": given.set, "records": given.size, "delta": given.delta, "tests": given.tests}
    told |= {
        "command": _command(given),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "processor": processor(),
    }
    with tempfile.TemporaryDirectory() as folder:
        new = NewNetwork(name="network", architecture=given.architecture, origin="a benchmark")
        card, _ = add_network(Path(folder), new, given.network)
        choose_networks(Path(folder))
        sizes: Any = argparse.Namespace(nominal_size=given.size, capacity=given.size)
        embedding = load_recipe("embedding-mnist-1-cpu", {}).mechanism.parameters(sizes)
        statistics: dict[str, Any] = {
            "network": "network",
            "network_sha256": card.sha256,
            "network_declared": DECLARED,
            "architecture": given.architecture,
            "num_features": 0,
            "cells": 1,
            "enlarged": 1,
            "count_scale": 0.4,
            "refinements": [],
            "radius_scale": 1.3,
            "moments": "together",
            "moment_seed": 0,
            "max_size": given.size,
            "max_records_per_unit": 1,
        } | CHOICES[given.architecture]
        for seed in given.seeds:
            trial = _Trial(given, seed)
            of_seed = told | {"seed": seed, "tested_on": trial.tested_on}
            _print_head(trial, given, of_seed)
            both = ("noise_multiplier", "moment_noise_multiplier")
            ours = trial.run("feature-statistics", statistics, both)
            print_row(**of_seed, method=f"statistics, {given.architecture}", **ours)
            if not given.alone:
                theirs = trial.run("mean-embedding", embedding, ("noise_multiplier",))
                print_row(**of_seed, method="mean embedding", **theirs)
    return 0


def _print_head(trial: _Trial, given: argparse.Namespace, told: dict[str, Any]) -> None:
    """Print what the network knows without a private record."""
    if given.architecture == "cnn-features" and _head_file(given.network).exists():
        extractor = build_extractor("cnn-features", trial.shape, _FEATURES)
        head = trial.accuracy(_Head(given.network, extractor))
        print_row(**told, method="public_head", epsilon=0.0, accuracy=head)


def _command(given: argparse.Namespace) -> str:
    """Return what was typed, without the places of this machine."""
    places = {str(given.network): "NETWORK", str(given.data): "FOLDER"}
    return shlex.join(
        ["python", "-m", "benchmarks.statistics", *(places.get(one, one) for one in sys.argv[1:])]
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.statistics",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    trained = commands.add_parser("network", help="train a small network on USPS")
    trained.add_argument("out", type=Path, metavar="FILE.safetensors")
    trained.add_argument("--data", type=Path, metavar="FOLDER")
    trained.set_defaults(run=train_network)
    made = commands.add_parser("make", help="print rows")
    made.add_argument("network", type=Path, metavar="FILE.safetensors")
    made.add_argument("--architecture", choices=CHOICES, default="cnn-features")
    made.add_argument("--set", choices=("digits", "colours"), default="digits")
    made.add_argument("--data", type=Path, metavar="FOLDER")
    made.add_argument("--size", type=int, default=60000, help="private images [60000]")
    made.add_argument("--tests", type=int, default=10000, help="test images [10000]")
    made.add_argument("--epsilon", type=float, default=1.0)
    made.add_argument("--delta", type=float, default=1e-5)
    made.add_argument("--ridge", type=float, default=RIDGE)
    made.add_argument(
        "--seeds", nargs="+", type=int, default=[0, 1, 2], help="draws of noise and tests"
    )
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--alone", action="store_true", help="without the mean embedding")
    made.set_defaults(run=make_rows)
    return parser


def main() -> int:
    """Run a command."""
    given = _parser().parse_args()
    code: int = given.run(given)
    return code


if __name__ == "__main__":
    sys.exit(main())
