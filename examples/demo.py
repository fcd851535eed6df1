"""The whole of Weir in minutes: a curator, an analyst, one budget, and the refusal at its end.

Run it with `make demo`. Everything happens on this machine, but the analyst's commands know nothing
of the private images: they speak to the curator over TLS, with a credentials file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

EPSILON, DELTA = 10.0, 1e-4
PUBLIC_EVERY = 5  # every fifth record is declared public and is the test set
GRID_COLUMNS = 10
LEAST_ACCURACY, LARGEST_LOSS = 0.85, 0.0
READY = re.compile(r"grpc \S+:(\d+) rest (\S+)")
# one thread a side: the models are small, and idle threads that spin cost more than they give
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
BUDGET_EXHAUSTED = 6  # exit code of the analyst's commands
ACCURACY = re.compile(r"accuracy\D*([\d.]+)\s*%")


class Demo:
    """One run of the demonstration in one folder."""

    def __init__(self, root: Path) -> None:
        """Use an empty folder."""
        self.root = root
        self.curator_dir = root / "curator"
        self.credentials = self.curator_dir / "analysts" / "alice.credentials.json"
        self.grpc, self.rest = "", ""

    def curator(self, *arguments: str) -> None:
        """Run one command of the steward."""
        self._run("curator", *arguments)

    def analyst(self, *arguments: str, expected: tuple[int, ...] = (0,)) -> str:
        """Run one command of the analyst; return what it printed."""
        return self._run("analyst", *arguments, expected=expected)

    def _run(self, program: str, *arguments: str, expected: tuple[int, ...] = (0,)) -> str:
        """Run a command, show it and its output as it comes.

        Raises:
            SystemExit: If it fails.
        """
        print(f"\n$ {program} {' '.join(_short(argument) for argument in arguments)}", flush=True)
        command = [sys.executable, "-m", f"{program}.cli", *arguments]
        if arguments[0] == "train":  # keeps the terminal, for its live line
            code, output = subprocess.run(command, check=False, env=ONE_THREAD).returncode, ""
        else:
            done = subprocess.run(
                command, check=False, env=ONE_THREAD, stdout=subprocess.PIPE, text=True
            )
            code, output = done.returncode, done.stdout
            print(output, end="", flush=True)
        if code not in expected:
            raise SystemExit(f"{program} {arguments[0]} ended with exit code {code}")
        return output

    def serve(self) -> subprocess.Popen[str]:
        """Start the curator and wait for its ready line.

        Raises:
            SystemExit: If it does not come up.
        """
        print(f"\n$ curator serve --dir {_short(str(self.curator_dir))} &", flush=True)
        with (self.root / "curator.log").open("w") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "curator.cli", "serve"),
                    *("--dir", str(self.curator_dir), "--grpc-port", "0", "--rest-port", "0"),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=ONE_THREAD,
            )
        line = process.stdout.readline() if process.stdout else ""
        print(line, end="", flush=True)
        found = READY.search(line)
        if not found:
            raise SystemExit(f"the curator did not start; see {self.root / 'curator.log'}")
        self.grpc, self.rest = f"localhost:{found[1]}", found[2]
        return process

    def show_rest_budget(self, when: str) -> None:
        """Ask the REST API what is left."""
        url = f"{self.rest}/v1/datasets/digits/budget"
        token = json.loads(self.credentials.read_text())["token"]
        tls = ssl.create_default_context(cafile=str(self.curator_dir / "identity" / "ca.pem"))
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, context=tls, timeout=20) as response:
            answer = json.load(response)
        print(f"\n$ curl -H 'Authorization: Bearer ...' {url}    # {when}")
        print(json.dumps(answer, indent=1), flush=True)

    def connection(self) -> tuple[str, ...]:
        """Return the options of every analyst's command."""
        return ("--curator", self.grpc, "--credentials", str(self.credentials))

    def accuracy(self, synthetic: Path) -> float:
        """Train a classifier on synthetic digits and test it on the public real ones."""
        write_grid(synthetic, synthetic.with_suffix(".png"))
        test = str(self.root / "public-test.npz")
        output = self.analyst(
            "evaluate", str(synthetic), "--test", test, "--classifier", "logistic"
        )
        return float(ACCURACY.findall(output)[0]) / 100


def _short(argument: str) -> str:
    path = Path(argument)
    return os.path.relpath(path) if path.is_absolute() else argument


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n\033[1m== {text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


def write_public_test_set(path: Path) -> None:
    """Write the fifth of the digits that was declared public."""
    images, labels = load_digits(return_X_y=True)
    public = np.arange(len(images)) % PUBLIC_EVERY == 0
    pixels = np.round(images[public].reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    np.savez(path, images=pixels, labels=labels[public])


def write_grid(synthetic: Path, out: Path) -> None:
    """Draw the first ten digits of each class, a row each."""
    with np.load(synthetic) as archive:
        images, labels = archive["images"], archive["labels"]
    rows = [np.concatenate(images[labels == label][:GRID_COLUMNS], axis=1) for label in range(10)]
    width = max(row.shape[1] for row in rows)
    grid = np.concatenate([np.pad(row, ((0, 0), (0, width - row.shape[1]))) for row in rows])
    Image.fromarray(grid).resize((6 * width, 6 * len(grid)), Image.Resampling.NEAREST).save(out)


def film_strip(samples: Path, out: Path) -> None:
    """Put the first sample of each class at ever later steps of a training side by side.

    The grids are of the same latents, so a row is one image as it takes shape.
    """
    paths = sorted(samples.glob("step-*.png"))
    numbers = [0, *(2**power for power in range(len(paths).bit_length()))]  # steps double
    shown = dict.fromkeys(min(number, len(paths) - 1) for number in numbers)
    grids = [Image.open(paths[number]) for number in shown]
    columns = [grid.crop((0, 0, grid.width // GRID_COLUMNS, grid.height)) for grid in grids]
    strip = Image.new("L", (sum(column.width for column in columns), grids[0].height))
    for number, column in enumerate(columns):
        strip.paste(column, (number * column.width, 0))
    strip.save(out)
    print(f"ten digits before the first step and after ever more: {_short(str(out))}")


def steward(demo: Demo) -> None:
    """Set the curator up: folder, data set with its budget, one analyst."""
    say("The steward makes a curator, declares the public facts and fixes the budget")
    directory = ("--dir", str(demo.curator_dir))
    demo.curator("init", str(demo.curator_dir))
    demo.curator(
        *("dataset", "add", "digits", "sklearn:digits-private", *directory),
        *("--epsilon", f"{EPSILON:g}", "--delta", f"{DELTA:g}"),
        *("--adjacency", "add-or-remove-one-record"),
        *("--classes", "0,1,2,3,4,5,6,7,8,9", "--image-shape", "1x8x8", "--max-level", "16"),
        *("--nominal-size", "1437", "--max-size", "1500"),
        *("--sampling-rate", "40/1437", "--capacity", "96"),
    )
    demo.curator("analyst", "add", "alice", *directory)


def train(demo: Demo) -> tuple[float, float]:
    """Train a generator, then a teacher of its digits; return the accuracy after each."""
    first, wider, second = (
        demo.root / f"digits-{name}.npz" for name in ("stage-1", "wider", "stage-2")
    )
    say("The analyst asks what the budget buys, before spending any of it")
    demo.show_rest_budget("before")
    demo.analyst("plan", *demo.connection(), "--recipe", "embedding-digits")
    say("Stage 1: one released mean embedding, charged once; every gradient after it is free")
    demo.analyst(
        *("train", *demo.connection(), "--recipe", "embedding-digits"),
        *("--out", str(demo.root / "stage-1"), "--set", "session.sample_every=20"),
        *("--grid-columns", str(GRID_COLUMNS)),
    )
    film_strip(demo.root / "stage-1" / "samples", demo.root / "improving.png")
    demo.analyst(
        *("sample", "--out-of", str(demo.root / "stage-1"), "--count", "2000"),
        *("--out", str(first)),
    )
    after_first = demo.accuracy(first)
    demo.show_rest_budget("between")
    say("Stage 2: a teacher learns from noised gradients, each charged, and labels the digits anew")
    demo.analyst("plan", *demo.connection(), "--recipe", "linear-teacher-digits")
    demo.analyst(
        *("teacher", "train", *demo.connection(), "--recipe", "linear-teacher-digits"),
        *("--out", str(demo.root / "stage-2")),
    )
    demo.analyst(
        *("sample", "--out-of", str(demo.root / "stage-1"), "--count", "4000"),
        *("--augment", "0.4", "--out", str(wider)),
    )
    demo.analyst(
        "refine", str(wider), "--teacher", str(demo.root / "stage-2"), "--out", str(second)
    )
    after_second = demo.accuracy(second)
    say("The budget is spent: the curator refuses the step after the last one")
    demo.analyst(
        *("teacher", "train", *demo.connection(), "--recipe", "linear-teacher-digits"),
        *("--set", "training.steps=1", "--out", str(demo.root / "refused")),
        expected=(BUDGET_EXHAUSTED,),
    )
    demo.show_rest_budget("after")
    return after_first, after_second


def main() -> int:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="a folder to write to")
    root = parser.parse_args().out.resolve()
    started = time.monotonic()
    marker = root / ".weir-demo"
    if root.exists() and not marker.exists() and (not root.is_dir() or any(root.iterdir())):
        parser.error(f"{root} is in use: choose a new folder with --out, or remove it")
    shutil.rmtree(root, ignore_errors=True)  # of an earlier demonstration
    root.mkdir(parents=True)
    marker.touch()
    demo = Demo(root)
    write_public_test_set(root / "public-test.npz")
    steward(demo)
    process = demo.serve()
    try:
        first, second = train(demo)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    demo.curator("budget", "--dir", str(demo.curator_dir))
    export = root / "ledger.jsonl"
    demo.curator("ledger", "export", "--dir", str(demo.curator_dir), "--out", str(export))
    demo.curator("ledger", "verify", str(export))
    say("Done")
    print(
        f"accuracy on the public real digits: {first:.1%} after stage 1, "
        f"{second:.1%} after stage 2; the curator drained and exited {code}\n"
        f"look at {_short(str(root / 'improving.png'))}, "
        f"{_short(str(root / 'digits-stage-1.png'))} and "
        f"{_short(str(root / 'digits-stage-2.png'))}; "
        f"{time.monotonic() - started:.0f} s in all"
    )
    good = second >= LEAST_ACCURACY and second >= first - LARGEST_LOSS and code == 0
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
