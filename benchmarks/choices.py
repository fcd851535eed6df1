"""How long the curator takes for a step that asks every record: votes, and a score.

    python -m benchmarks.choices --records 60000 --candidates 2000

Images are noise of MNIST's size: the time is the same for any. One core, no transport, and what
else the machine does is not counted. Prints a JSON row for each kind of step.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from safetensors.torch import save

from benchmarks.rows import compute_as_the_curator, print_row
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.mechanisms.record_choices import ChoiceMechanism
from curator.mechanisms.score import Score, ScoreSpec
from curator.mechanisms.votes import Votes, VotesSpec
from curator.privacy.batches import ImageSpace, Samples
from curator.sanitizer.entropy import OsEntropy
from curator.state.asking import private_batches

_SPACE = ImageSpace(channels=1, height=28, width=28, max_level=255, num_classes=10)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Steps that ask every record.")
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--candidates", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    compute_as_the_curator()
    generator = np.random.default_rng(0)
    levels = generator.integers(0, 256, (options.records, 1, 28, 28), dtype=np.uint8)
    labels = generator.integers(0, 10, options.records)
    records = PrivateRecords(LabelledImages(levels=levels, labels=labels), options.records)
    bounds = {"noise_multiplier": 9.0, "max_size": options.records, "max_records_per_unit": 1}
    votes = {"num_candidates": options.candidates, "images_per_candidate": 1}
    steps: dict[str, ChoiceMechanism] = {
        "votes, pixels": Votes(VotesSpec(**bounds, **votes, features="pixels"), _SPACE),
        "score, mlp-features": Score(
            ScoreSpec(**bounds, architecture="mlp-features", counts="total"), _SPACE
        ),
    }
    for name, mechanism in steps.items():
        state = mechanism.start(private_batches(mechanism, records, OsEntropy()))
        asked = _asked(mechanism)

        seconds = []
        for _ in range(options.repeats):
            began = time.process_time()
            mechanism.gradient(state, asked, OsEntropy())
            seconds.append(round(time.process_time() - began, 2))
        sizes = {"records": options.records, "candidates": options.candidates}
        print_row(step=name, **sizes, core_seconds=seconds)


def _asked(mechanism: ChoiceMechanism) -> Samples:
    generator = torch.Generator().manual_seed(0)
    rows = mechanism.rows_per_step or 1
    if isinstance(mechanism, Score):
        sizes = mechanism.shape.sizes.items()
        weights = {name: torch.rand(size, generator=generator) for name, size in sizes}
        labels = torch.zeros(rows, dtype=torch.int64)
        return Samples(images_ND=torch.zeros(rows, 1), labels_N=labels, weights=save(weights))
    images = torch.rand((rows, _SPACE.dimension), generator=generator) * 2 - 1
    return Samples(images_ND=images, labels_N=torch.arange(rows) % 10)


if __name__ == "__main__":
    main()
