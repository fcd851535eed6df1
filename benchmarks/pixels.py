"""How every mechanism grows with the pixels of an image: a step's time and memory, in colour.

    python -m benchmarks.pixels [--mechanism NAME ...] [--sides 64 128] [--repeats 5]

Each size runs in a process of its own; times are the processor's, so that a busy machine counts
less, and `opening_ms` is a release that is made when a run opens, or all records once. The last row
of a mechanism compares the largest size with the one before: four times the pixels should take
about four times as long.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from benchmarks.rows import compute_as_the_curator, memory_mib, print_row, summary
from curator.data.images import LabelledImages
from curator.data.sampling import PrivateRecords
from curator.errors import MalformedRequest
from curator.mechanisms.base import (
    ReleasedOnceMechanism,
    SampledMechanism,
    ServedMechanism,
    StatefulMechanism,
)
from curator.mechanisms.catalogue import mechanism_names, parse_mechanism
from curator.mechanisms.dp_swd_features import DpSwdFeatures
from curator.mechanisms.linear_teacher import LinearTeacher
from curator.mechanisms.score import Score
from curator.privacy.batches import ImageSpace, Samples
from curator.sanitizer.entropy import OsEntropy
from curator.state.asking import private_batches, state_step

_NUM_RECORDS: Final = 200
_MAX_SIZE: Final = 256
_SAMPLED: Final = {"sampling_rate": 0.1, "capacity": 48}
_BOUNDED: Final = _SAMPLED | {"max_size": _MAX_SIZE, "max_records_per_unit": 1}
_KEPT: Final = {"max_size": _MAX_SIZE, "max_records_per_unit": 1}
_SHARDS: Final = {"shard_capacity": 40, "num_samples": 20}
_TRAINED: Final = _SHARDS | {"warm_start_steps": 0, "gradient_penalty": 10.0}
_CRITICS: Final = _TRAINED | {
    "num_critics": 10,
    "clip_norm": 1.0,
    "critic": "conv",
    "critic_width": 8,
    "critic_seed": 1,
    "critic_batch": 16,
    "critic_steps": 1,
    "critic_learning_rate": 1e-3,
}
_TEACHERS: Final = _TRAINED | {
    "num_teachers": 10,
    "teacher": "conv",
    "teacher_width": 8,
    "teacher_seed": 1,
    "teacher_batch": 16,
    "teacher_steps": 1,
    "teacher_learning_rate": 1e-3,
}
_EXTRACTOR: Final = {"architecture": "mlp-features"}
PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "adversarial-dp-sinkhorn": _SHARDS
    | {"num_extractors": 10, "num_debias": 4, "clip_norm": 0.5, "reg": 0.5, "label_scale": 4.0}
    | {"feature_scale": 2.0, "extractor": "conv", "extractor_width": 8, "extractor_seed": 1}
    | {"extractor_steps": 1, "extractor_learning_rate": 1e-4},
    "dp-cgan": _BOUNDED
    | {"expected_batch_size": 20.0, "num_samples": 20, "num_fakes": 20, "clip_norm": 0.1}
    | {"critic": "conv", "critic_width": 8, "critic_seed": 1, "critic_steps": 1}
    | {"critic_learning_rate": 1e-3},
    "dp-merf-ae": _BOUNDED
    | {"expected_batch_size": 20.0, "autoencoder": "mlp", "hidden_width": 8, "code_width": 4}
    | {"autoencoder_seed": 1, "clip_norm": 0.5, "training_noise_multiplier": 3.0}
    | {"training_steps": 10, "training_learning_rate": 1e-2, "averaging": 0.9}
    | {"num_features": 100, "bandwidths": [1.0], "feature_seed": 0, "count_scale": 0.3},
    "dp-sinkhorn": _SAMPLED
    | {"num_samples": 50, "num_debias": 10, "clip_norm": 0.5, "reg": 5.0, "l1_weight": 0.0}
    | {"label_scale": 15.0, "schedule": "published"},
    "dp-swd": _BOUNDED
    | {"num_samples": 20, "num_projections": 100, "clip_norm": 60.0, "label_scale": 40.0}
    | {"origin": "grey"},
    "dp-swd-features": _BOUNDED
    | _EXTRACTOR
    | {"num_samples": 20, "num_projections": 100, "clip_norm": 2.0, "num_features": 64},
    "g-pate": _TEACHERS
    | {"num_projections": 8, "projection_seed": 1, "aggregation": "mean", "num_bins": 0}
    | {"clip_norm": 2.0},
    "gs-wgan-decoupled": _CRITICS | {"critics_per_step": 1},
    "gs-wgan-mean": _CRITICS,
    "gs-wgan-round-robin": _CRITICS,
    "linear-teacher": _KEPT
    | {"asks": "gradient", "features": "pixels", "num_features": 0, "bias": 0.5}
    | {"clip_norm": 0.4},
    "mean-embedding": {"feature_map": "rff", "num_features": 1200, "bandwidths": [30.0, 60.0]}
    | {"feature_seed": 0, "count_scale": 0.1},
    "pate-gan": _TEACHERS
    | {"num_labelled": 20, "labels": "relative", "reach": 0.1, "student": "conv"}
    | {"student_width": 8, "student_seed": 1, "student_batch": 32, "student_steps": 1}
    | {"student_learning_rate": 1e-3, "pool_steps": 2, "residual": 0.3},
    "score": _KEPT | _EXTRACTOR | {"counts": "by-class"},
    "votes": _KEPT | {"num_candidates": 50, "images_per_candidate": 1, "features": "pixels"},
}
"""A run of each mechanism whose cost is that of its pixels."""

Step = Callable[[], object]


def space(side: int, max_level: int = 255) -> ImageSpace:
    """Return the images: square and in colour, of two classes."""
    return ImageSpace(channels=3, height=side, width=side, max_level=max_level, num_classes=2)


def opened(name: str, side: int) -> ServedMechanism:
    """Return a mechanism for images of a size.

    Raises:
        MalformedRequest: If such images are too large for it.
    """
    parameters = {"noise_multiplier": 2.0} | PARAMETERS[name]
    return parse_mechanism(name, json.dumps(parameters), space(side))


def samples(mechanism: ServedMechanism) -> Samples:
    """Return what a step sends."""
    rows = mechanism.rows_per_step or 20
    needed = mechanism.requirements()
    images = torch.rand(rows, needed.numbers_per_row) * 2 - 1
    labels, weights = torch.arange(rows) % 2, b""
    if isinstance(mechanism, LinearTeacher | Score | DpSwdFeatures):
        from safetensors.torch import save

        shape = mechanism.shape
        sizes = {} if shape is None else shape.sizes
        weights = save({key: torch.randn(size) * 0.05 for key, size in sizes.items()})
        labels, images = torch.zeros_like(labels), images * (not isinstance(mechanism, Score))
    return Samples(images_ND=images, labels_N=labels, weights=weights)


def step_of(mechanism: ServedMechanism, records: PrivateRecords) -> Step:
    """Return what a step is: sampling, gradient and release.

    Raises:
        TypeError: Never: these are all kinds.
    """
    noise, asked = OsEntropy(), samples(mechanism)
    if isinstance(mechanism, SampledMechanism):
        spec = mechanism.spec
        return lambda: mechanism.gradient(
            asked, records.poisson_batch(spec.rate, spec.capacity, noise), noise
        )
    batches = private_batches(mechanism, records, noise)
    if isinstance(mechanism, ReleasedOnceMechanism):
        released = mechanism.setup(batches, noise)
        return lambda: mechanism.gradient(asked, released)
    if isinstance(mechanism, StatefulMechanism):
        state = mechanism.start(batches)
        return lambda: state_step(mechanism, state, 1, asked, noise)
    raise TypeError


def _measure(name: str, side: int, repeats: int, answer: Connection) -> None:
    compute_as_the_curator()
    generator = np.random.default_rng(0)
    levels = generator.integers(0, 256, (_NUM_RECORDS, 3, side, side), dtype=np.uint8)
    images = LabelledImages(levels=levels, labels=np.arange(_NUM_RECORDS) % 2)
    try:
        mechanism = opened(name, side)
    except MalformedRequest as refused:
        answer.send({"refused": str(refused)})
        return
    _peak_mib()
    before, started = memory_mib()["own_mib"], time.process_time()
    step = step_of(mechanism, PrivateRecords(images, _MAX_SIZE))
    opening = time.process_time() - started
    step()
    seconds = [_processor_seconds(step) for _ in range(max(2, repeats))]
    peak = {"opening_ms": round(1e3 * opening, 1), "peak_mib": round(_peak_mib() - before, 1)}
    answer.send(summary(seconds) | peak)


def _processor_seconds(step: Step) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


def _peak_mib() -> float:
    """Return the most memory since this was last asked; Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    Path("/proc/self/clear_refs").write_text("5")
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) / 1024


def measured(name: str, side: int, repeats: int) -> dict[str, Any]:
    """Return what a size takes, in a process of its own, or why it is refused."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(name, side, repeats, theirs))
    process.start()
    theirs.close()
    found: dict[str, Any] = ours.recv()
    process.join()
    return found


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mechanism", nargs="+", default=list(mechanism_names()))
    parser.add_argument("--sides", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    for name in arguments.mechanism:
        found = []
        for side in sorted(arguments.sides):
            found.append(measured(name, side, arguments.repeats))
            print_row(benchmark="pixels", mechanism=name, side=side, channels=3, **found[-1])
        if len(found) > 1 and not any("refused" in one for one in found):
            before, last = found[-2:]
            print_row(
                benchmark="pixels",
                mechanism=name,
                sides=sorted(arguments.sides)[-2:],
                time_ratio=round(last["least_ms"] / before["least_ms"], 2),
                opening_ratio=round(last["opening_ms"] / before["opening_ms"], 2),
                memory_ratio=round(last["peak_mib"] / before["peak_mib"], 2),
            )


if __name__ == "__main__":
    main()
