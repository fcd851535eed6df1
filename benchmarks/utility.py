"""Utility of recipes: a curator, training through the barrier, evaluation; one JSON row a seed.

Every row has a curator and a budget of its own, so its epsilon is that of this run alone. The
epsilon in a row is read from the curator's ledger, never from the recipe. Classifiers learn on the
synthetic images only; the real test set chooses nothing.

    python -m benchmarks.utility --recipe embedding-mnist-10 --seeds 0 1 2 --data DIR \
        --device cuda --offline --minutes 8 --out results

DIR holds mnist.npz and fashion_mnist.npz with the arrays x_train, y_train, x_test and y_test; the
data set `digits` needs none. With --parallel, jobs share the device and the processors. The command
stops in time and resumes: a row that exists is skipped, a training that was stopped goes on from
its checkpoint, a classifier that was tested is not again.

OUT/rows/NAME.json   the row       OUT/grids/NAME.png   ten samples a class
OUT/work/NAME/       curator, checkpoints, synthetic images, reports
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from analyst.errors import RecipeError
from analyst.evaluation.assess import assess
from analyst.evaluation.charts import sample_grid
from analyst.evaluation.classifier import PAPER_CLASSIFIERS
from analyst.evaluation.image_file import load_images, save_images
from analyst.evaluation.sample import sample_run
from analyst.recipes import Recipe
from benchmarks.utility_curator import serving, spent_epsilon, steward, test_file
from benchmarks.utility_job import ROOT, Job, OutOfTimeError, run


def train(job: Job, recipe: Recipe) -> None:
    """Train, or go on; the seconds of all sessions add up in a file."""
    trained, seconds = job.work / "trained", job.work / "seconds.json"
    if trained.exists():
        return
    started = time.monotonic()
    before = json.loads(seconds.read_text()) if seconds.exists() else 0.0
    try:
        if job.arguments.offline and not recipe.mechanism.pays_per_step:
            train_offline(job)
        else:
            with serving(job) as access:
                run(job, ("train", *access, *how_to_train(job)))
        trained.touch()
    finally:
        seconds.write_text(json.dumps(before + time.monotonic() - started))


def train_offline(job: Job) -> None:
    """Fetch the release once, through the barrier, and train without the curator."""
    released = job.work / "released.safetensors"
    if not released.exists():
        with serving(job) as access:
            words = ("--recipe", job.recipe, *changes(job), "--out", str(released))
            run(job, ("embedding", "download", *access, *words))
    run(job, ("embedding", "train", str(released), *how_to_train(job)))


def how_to_train(job: Job) -> tuple[str, ...]:
    """Return the options of a new training, or of one to go on with."""
    out = job.work / "run"
    place = ("--out", str(out), "--device", job.arguments.device)
    if any((out / "checkpoints").glob("*.json")):
        return ("--resume", *place)
    return ("--recipe", job.recipe, *changes(job), *place)


def changes(job: Job) -> tuple[str, ...]:
    """Return the options that change the recipe."""
    words = [word for one in job.arguments.assignments for word in ("--set", one)]
    return (*words, "--seed", str(job.seed))


def measure(job: Job, recipe: Recipe) -> dict[str, object]:
    """Sample, classify, measure; return what goes into the row."""
    synthetic, test = job.work / "synthetic.npz", test_file(job, recipe)
    if not synthetic.exists():
        how = {"seed": job.seed, "weights": "ema", "device": job.arguments.device}
        images = sample_run(job.work / "run", job.arguments.count, **how)
        partial = job.work / "partial.npz"
        save_images(partial, images)
        partial.replace(synthetic)
    reports = {name: job.work / f"evaluation-{name}" for name in job.arguments.classifiers}
    options = ("--device", job.arguments.device, "--seed", str(job.seed))
    given = (str(synthetic), "--test", str(test), *options)
    missing = [
        ("evaluate", *given, "--classifier", name, "--out", str(out))
        for name, out in reports.items()
        if not (out / "report.html").exists()
    ]
    if missing:
        run(job, *missing)
    accuracies = {}
    for name, out in reports.items():
        (report,) = json.loads((out / "evaluation.json").read_bytes())["reports"]
        accuracies[name] = round(report["accuracy"], 5)
    images = load_images(synthetic)
    assessment = assess(images, load_images(test, part="test"), None, device=job.arguments.device)
    grid = sample_grid(images)
    if grid is not None:
        path = job.out / "grids" / f"{job.name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(grid)
    lenet = None if assessment.lenet is None else round(assessment.lenet.distance, 3)
    return {"accuracy": accuracies, "lenet_fid": lenet, **asdict(assessment.coverage)}


def finish(job: Job) -> None:
    """Do what is left of a job and write its row."""
    recipe = job.load()
    steward(job, recipe)
    train(job, recipe)
    measured = measure(job, recipe)
    row = {
        "recipe": job.recipe,
        "changes": job.arguments.assignments,
        "seed": job.seed,
        "dataset": recipe.training.dataset,
        "mechanism": recipe.mechanism.kind,
        "epsilon": spent_epsilon(job, recipe.training.dataset),
        "delta": job.arguments.delta,
        **measured,
        "train_seconds": round(json.loads((job.work / "seconds.json").read_text()), 1),
        "device": job.arguments.device,
        "offline": job.arguments.offline,
        "machine": platform.machine(),
        "commit": commit(),
        **{name: importlib.metadata.version(name) for name in ("torch", "scikit-learn")},
    }
    job.row.parent.mkdir(parents=True, exist_ok=True)
    partial = job.row.with_suffix(".partial")
    partial.write_text(json.dumps(row, indent=1) + "\n")
    partial.replace(job.row)
    print(json.dumps(row), flush=True)


def commit() -> str:
    """Return the commit that was measured, if this is a checkout."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=9"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def finish_side_by_side(jobs: list[Job], words: list[str], deadline: float) -> int:
    """Run each job in a process of its own, some at a time; return the worst exit code."""
    waiting, worst = list(jobs), 0
    running: dict[str, subprocess.Popen[bytes]] = {}
    while waiting or running:
        while waiting and len(running) < jobs[0].arguments.parallel:
            job = waiting.pop(0)
            minutes = str((deadline - time.monotonic()) / 60)
            one = ("--parallel", "1", "--seeds", str(job.seed), "--minutes", minutes)
            program = (sys.executable, "-m", "benchmarks.utility")
            command = [*program, *words, *one, "--recipe", job.recipe]
            running[job.name] = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for name, process in list(running.items()):
            code = process.poll()
            if code is not None:
                worst = max(worst, abs(code))
                del running[name]
                print(f"{name}: exit code {code}", file=sys.stderr, flush=True)
        time.sleep(0.2)
    return worst


def summary(jobs: list[Job]) -> str:
    """Return mean and standard deviation over the seeds of each recipe, as a table."""
    lines = ["| recipe | seeds | epsilon | " + " | ".join(PAPER_CLASSIFIERS) + " |"]
    lines.append("|-|-|-|" + "-|" * len(PAPER_CLASSIFIERS))
    for recipe in dict.fromkeys(job.recipe for job in jobs):
        done = [job.row for job in jobs if job.recipe == recipe and job.row.exists()]
        rows = [json.loads(path.read_bytes()) for path in done]
        if rows:
            cells = [Path(recipe).stem, str(len(rows)), f"{max(r['epsilon'] for r in rows):.4f}"]
            cells += [
                spread([row["accuracy"].get(name) for row in rows]) for name in PAPER_CLASSIFIERS
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spread(values: list[float | None]) -> str:
    """Return mean and standard deviation in percent."""
    known = [100 * value for value in values if value is not None]
    if not known:
        return ""
    deviation = f" ± {statistics.stdev(known):.1f}" if len(known) > 1 else ""
    return f"{statistics.mean(known):.1f}{deviation}"


def parse() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", nargs="+", required=True, metavar="NAME|FILE.toml")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument(
        "--set", dest="assignments", action="append", default=[], metavar="KEY=VALUE"
    )
    parser.add_argument("--label", default="", help="tells rows with other --set apart")
    parser.add_argument("--data", type=Path, help="folder of the real data sets")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu", help="of generator and classifiers [cpu]")
    parser.add_argument(
        "--offline", action="store_true", help="fetch released embeddings once, train on --device"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after these")
    parser.add_argument("--parallel", type=int, default=1, help="jobs side by side [1]")
    parser.add_argument("--curator-device", default="cpu", help="of the curator [cpu]")
    parser.add_argument("--count", type=int, default=60000, help="synthetic images [60000]")
    parser.add_argument("--epsilon", type=float, default=10.0, help="budget [10]")
    parser.add_argument("--delta", type=float, default=1e-5, help="of the budget [1e-5]")
    parser.add_argument(
        "--classifiers", nargs="*", choices=PAPER_CLASSIFIERS, default=list(PAPER_CLASSIFIERS)
    )
    arguments = parser.parse_args()
    arguments.out = arguments.out.resolve()
    return arguments


def main() -> int:
    """Do the jobs in order until they are done or time is over."""
    arguments = parse()
    deadline = time.monotonic() + 60 * arguments.minutes
    jobs = [
        Job(recipe=recipe, seed=seed, arguments=arguments, deadline=deadline)
        for seed in arguments.seeds
        for recipe in arguments.recipe
    ]
    code = 0
    if arguments.parallel > 1:
        missing = [job for job in jobs if not job.row.exists()]
        code = finish_side_by_side(missing, sys.argv[1:], deadline) if missing else 0
        print(summary(jobs), flush=True)
        return code
    try:
        for job in jobs:
            if job.row.exists():
                print(f"{job.name}: there is a row; skipped", file=sys.stderr, flush=True)
            else:
                finish(job)
    except OutOfTimeError:
        print("out of time: the same command goes on", file=sys.stderr, flush=True)
        code = 3
    except RecipeError as error:
        sys.exit(str(error))
    print(summary(jobs), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
