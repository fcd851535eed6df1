"""DP-CGAN for a limited time: a curator and an analyst on one card, and what came of it.

Trains through the barrier until the time is over or the declared steps are used, then samples from
the newest checkpoint, tests classifiers on real images and writes one JSON row, with the epsilon
that the curator's ledger has charged by then. The same command goes on where it stopped.

    python -m benchmarks.dp_cgan_gpu --data DIR --out OUT --device cuda --minutes 5
    python -m benchmarks.dp_cgan_gpu --out OUT --quick      # the digits, on the processor
    python -m benchmarks.dp_cgan_gpu --out OUT --device cuda --check

`--check` trains nothing: it times updates, and holds what the proof assumes of the arithmetic
against the device (rows of a batch do not touch each other; sums of integers are exact).

OUT/rows/NAME.json             the row            OUT/grids/NAME.png   ten samples a class
OUT/work/NAME/run/checkpoints  of the generator   OUT/work/NAME/synthetic.npz
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from analyst.evaluation.classifier import PAPER_CLASSIFIERS
from analyst.recipes import Recipe
from benchmarks.dp_cgan_check import check
from benchmarks.utility import commit, how_to_train, measure
from benchmarks.utility_curator import serving, spent_epsilon, steward
from benchmarks.utility_job import Job, OutOfTimeError, run

AFTER_MINUTES = 10.0  # for samples and classifiers, after the training's time


def train(job: Job) -> float:
    """Train until the time is over; return the seconds of all sessions."""
    seconds = job.work / "seconds.json"
    before = json.loads(seconds.read_text()) if seconds.exists() else 0.0
    finished = job.work / "trained"
    started = time.monotonic()
    if not finished.exists():
        try:
            with serving(job) as access:
                run(job, ("train", *access, *how_to_train(job)))
            finished.touch()
        except OutOfTimeError:
            print("out of time; going on with the newest checkpoint", file=sys.stderr, flush=True)
    total: float = before + time.monotonic() - started
    seconds.write_text(json.dumps(total))
    return total


def steps_done(job: Job) -> int:
    """Return the updates of the newest checkpoint."""
    manifests = sorted((job.work / "run" / "checkpoints").glob("*.json"))
    return max((int(json.loads(path.read_bytes())["num_updates"]) for path in manifests), default=0)


def finish(job: Job, arguments: argparse.Namespace) -> None:
    """Train, measure and write the row."""
    recipe: Recipe = job.load()
    steward(job, recipe)
    seconds = train(job)
    later = replace(job, deadline=time.monotonic() + 60 * AFTER_MINUTES)
    row = {
        "recipe": job.recipe,
        "changes": arguments.assignments,
        "mechanism": recipe.mechanism.model_dump(),
        "seed": job.seed,
        "steps_declared": recipe.training.steps,
        "steps_done": steps_done(job),
        "epsilon": spent_epsilon(job, recipe.training.dataset),
        "delta": arguments.delta,
        "train_seconds": round(seconds, 1),
        "card": card(arguments.device),
        "torch": torch.__version__,
        "commit": commit(),
    }
    write(job, row)  # what was trained is kept should the rest fail
    forget_measurements(job)
    write(job, row | measure(later, recipe))


def forget_measurements(job: Job) -> None:
    """Remove what an earlier session measured of an earlier generator."""
    (job.work / "synthetic.npz").unlink(missing_ok=True)
    for folder in job.work.glob("evaluation-*"):
        shutil.rmtree(folder)


def card(device: str) -> str:
    """Return the name of the device."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def write(job: Job, row: dict[str, object]) -> None:
    """Write and print the row."""
    job.row.parent.mkdir(parents=True, exist_ok=True)
    job.row.write_text(json.dumps(row, indent=1) + "\n")
    print(json.dumps(row), flush=True)


def parse() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="dp-cgan-mnist", metavar="NAME|FILE.toml")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--set", dest="assignments", action="append", default=[], metavar="KEY=VALUE"
    )
    parser.add_argument("--label", default="", help="tells rows with other --set apart")
    parser.add_argument("--data", type=Path, help="folder of the real data sets")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu", help="of both sides and classifiers [cpu]")
    parser.add_argument("--minutes", type=float, default=5.0, help="of training [5]")
    parser.add_argument("--count", type=int, default=60000, help="synthetic images [60000]")
    parser.add_argument("--epsilon", type=float, default=10.0, help="budget [10]")
    parser.add_argument("--delta", type=float, default=1e-5, help="of the budget [1e-5]")
    parser.add_argument(
        "--classifiers", nargs="*", choices=PAPER_CLASSIFIERS, default=list(PAPER_CLASSIFIERS)
    )
    parser.add_argument("--quick", action="store_true", help="60 steps on the digits")
    parser.add_argument("--check", action="store_true", help="the device's arithmetic and speed")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.recipe, arguments.count = "dp-cgan-digits", 2000
        arguments.assignments += ["training.steps=60", "session.checkpoint_every=10"]
    arguments.curator_device = arguments.device
    arguments.out = arguments.out.resolve()
    return arguments


def main() -> int:
    """Do what was asked."""
    arguments = parse()
    deadline = time.monotonic() + 60 * arguments.minutes
    job = Job(recipe=arguments.recipe, seed=arguments.seed, arguments=arguments, deadline=deadline)
    if arguments.check:
        row = check(job.load(), arguments.device)
        print(json.dumps(row), flush=True)
        return 0 if row["exact"] else 1
    finish(job, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
