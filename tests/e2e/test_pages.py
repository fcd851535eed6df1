"""The commands of the README and of the how-to pages, run as they are printed.

What is changed before they run is listed here: names that stand for something, and numbers that
would take hours. The tutorial has a test of its own, which changes nothing.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.documented import ROOT, pages
from tests.e2e.forks import Forked, shell_functions
from tests.fakes import dicom
from tests.fakes.inception import Pretender, saved

pytestmark = pytest.mark.e2e

QUICK = "--recipe dp-sinkhorn-mnist --steps 2 --generator-width 4"
COMMON = (
    (r"/srv/weir|\bDIR\b", "weir"),
    (r"HOST:50051|weir\.example\.org:50051", "localhost:{port}"),
    (r"\bTEXT\b", "'a test'"),
    (r"\bANALYST\b", "alice"),
    (r"--steps 2000", "--steps 2 --generator-width 4 --checkpoint-every 1"),
    (r"--recipe dp-sinkhorn-mnist --out", f"{QUICK} --out"),
)  # fmt: skip
RUN = (r"\bRUN_ID\b", "$(grep -om1 '[0-9a-f]\\{32\\}' runs/mnist/metrics.jsonl)")
EXECUTED: dict[str, tuple[tuple[str, str], ...]] = {
    "README.md": (
        (r"curator audit", "curator audit --canary flip --mechanism dp-sinkhorn --trials 20"),
        (r"--recipe dp-sinkhorn-digits", "--recipe dp-sinkhorn-digits --dataset mnist"),
        (r"(analyst evaluate [^\n]*)", r"\1 --classifier logistic"),
    ),
    "how-to/bring-your-data.md": (),
    "how-to/train-on-pictures.md": (
        (r"curator init /srv/weir", "true"),  # the fixture did
        (r"curator analyst add alice [^\n]*", "true"),
        (r"(embedding download )", r"\1--set mechanism.num_features=12 "),
        (r"(embedding train )", r"\1--steps 2 --set mechanism.num_features=12 "),
        (r"--count (500|64)", "--count 4"),
    ),
    "how-to/celeba.md": (
        (r"1-162770", "1-24"),
        (r"182638-202599", "25-48"),
        (r"(--recipe dp-sinkhorn-celeba32 --out)", r"--steps 2 --generator-width 4 \1"),
        (r"--count 60000", "--count 40"),
        (
            r"--features inception",
            ("--classifier all --features inception --inception-weights tiny.pt "
            "--inception-sha256 $(sha256sum tiny.pt | cut -d' ' -f1)"),
        ),
    ),
    "how-to/evaluate.md": (
        (r"--step 4000", "--step 0"),
        (r"--count 60000", "--count 40"),
        (r"(analyst evaluate [^\n]*)", r"\1 --classifier logistic"),
        (r"--suite gs-wgan ", ""),
        (r"--compare \S+ ", ""),
    ),
    "how-to/read-a-certificate.md": (
        (r"SHA256:\.\.\.", "$(cat fingerprint)"),
        RUN,
        (r"--out runs/mnist/certificate.json", "--out runs/mnist/again.json"),
    ),
    "how-to/recover-after-a-crash.md": (),
    "how-to/rotate-certificates.md": (),
    "how-to/run-the-ledger.md": ((r"\bNAME\b", "spare"),),
    "how-to/train-remotely.md": (
        RUN,
        (r"runs/mnist", "runs/remote"),
        (r"(--depth 2)", r"\1 --steps 4 --mechanism-noise-multiplier 20"),
        (r"--dataset cats", "--dataset mnist --steps 2 --mechanism-noise-multiplier 20"),
        (
            r"(--recipe dp-merf-ae-digits)",
            (r"\1 --dataset mnist --mechanism-expected-batch-size 50 --mechanism-capacity 112 "
            r"--mechanism-max-size 70000 --mechanism-training-steps 2 "
            r"--mechanism-training-noise-multiplier 20 --mechanism-noise-multiplier 20"),
        ),
        (r"(--out runs/ae)", r"\1 --steps 2"),
    ),
    "how-to/plan-a-run.md": (
        (r"--recipe dp-sinkhorn-digits", "--recipe dp-sinkhorn-digits --dataset mnist"),
        (r"\bNAME\b", "mnist"),
    ),
    "how-to/rehearse.md": ((r"fashion\.npz", "public-test.npz"),
                           (r"localhost:50061", "localhost:{rehearsal}")),
}  # fmt: skip
"""What is changed on each page before its commands are run."""

SERVES = ("curator serve", "curator rehearse")
ADD = (
    "curator dataset add {name} {source} --dir weir --epsilon 10 --delta 1e-5 "
    "--adjacency add-or-remove-one-record --classes 0,1,2,3,4,5,6,7,8,9 --image-shape 1x28x28 "
    "--nominal-size 60000 --max-size 70000 --sampling-rate 50/60000 --capacity 112"
)
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True, kw_only=True)
class World:
    """An empty folder with what a reader has: images, a recipe, later credentials."""

    folder: Path
    port: int = 0
    rehearsal: int = 0

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-euc", shell_functions() + command],
            check=False, cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True,
            timeout=280,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout


def _serve(folder: Path, *words: str) -> tuple[Forked, int]:
    reading, writing = os.pipe()
    all_words = ("curator", *words, "--grpc-port", "0", "--rest-port", "0")
    with (folder / "curator.log").open("a") as log:
        process = Forked(
            all_words, stdout=writing, stderr=log.fileno(), cwd=folder, env=ENVIRONMENT
        )
    os.close(writing)
    with os.fdopen(reading) as lines:
        for line in lines:
            if line.startswith("ready:"):
                return process, int(re.findall(r"grpc \S+:(\d+) ", line)[0])
    pytest.fail("the curator did not get ready")


def _materials(folder: Path) -> None:
    """Write the files that the pages assume."""
    draw = np.random.default_rng(1)
    images, labels = draw.integers(0, 256, (80, 28, 28), np.uint8), np.arange(80) % 10
    np.savez(folder / "mnist.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    for name in ("public-test", "look-alike", "other"):
        images = draw.integers(0, 256, (80, 28, 28), np.uint8)
        np.savez(folder / f"{name}.npz", images=images, labels=labels)
    for number in range(12):
        file = folder / "photos" / ("cat" if number % 2 else "dog") / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, (40, 36, 3), np.uint8)).save(file)
        size = (140, 160, 3)
        file = folder / "pictures" / ("face" if number % 2 else "thing") / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, size, np.uint8)).save(file)
        _deep(folder, number)
    _faces(folder, draw)


def _deep(folder: Path, number: int) -> None:
    """Write a scan and an X-ray picture; three images are of one person."""
    label = "healthy" if number % 2 else "ill"
    for kind in ("scans", "xrays"):
        (folder / kind / label).mkdir(parents=True, exist_ok=True)
    scan = dicom.dicom(dicom.values(seed=number, side=80), person=f"PID-{number // 3}")
    (folder / "scans" / label / f"{number}.dcm").write_bytes(scan)
    levels = dicom.values(16, seed=number, side=72)
    Image.fromarray(levels).save(folder / "xrays" / label / f"{number}.png")


def _faces(folder: Path, draw: np.random.Generator) -> None:
    """Write a stand-in for CelebA, and a file that is called as Inception's is."""
    (folder / "img_align_celeba").mkdir()
    lines = ["48", "Male Smiling"]
    for number in range(1, 49):
        image = Image.fromarray(draw.integers(0, 256, (218, 178, 3), np.uint8))
        image.save(folder / "img_align_celeba" / f"{number:06d}.jpg")
        lines.append(f"{number:06d}.jpg {'1' if number % 2 else '-1'} -1")
    (folder / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    saved(Pretender(), folder / "tiny.pt")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    _materials(folder)
    bare = World(folder=folder)
    bare.run("analyst recipes dp-sinkhorn-digits > RECIPE.toml; curator init weir")
    bare.run("curator key --dir weir --json | grep -o 'SHA256:[0-9a-f]*' > fingerprint")
    bare.run("; ".join([ADD.format(name="mnist", source="mnist.npz"),
                        ADD.format(name="spare", source="other.npz")]))  # fmt: skip
    bare.run("curator analyst add alice --dir weir --out alice.credentials.json")
    process, port = _serve(folder, "serve", "--dir", "weir")
    rehearsing, rehearsal = _serve(folder, "rehearse")
    ready = World(folder=folder, port=port, rehearsal=rehearsal)
    ready.run(  # a run that pages speak of
        f"analyst train --curator localhost:{port} --credentials alice.credentials.json "
        "--recipe dp-sinkhorn-mnist --steps 2 --generator-width 4 --out runs/mnist"
    )
    yield ready
    for one in (process, rehearsing):
        one.send_signal(signal.SIGTERM)
        assert one.wait(60) == 0


def _prepared(name: str, world: World) -> list[str]:
    """Return the commands of a page, changed as it is written above."""
    (page,) = (page for page in pages() if page.name == name)
    ours = [line for line in page.commands if line.split()[0] in {"curator", "analyst"}]
    made = []
    for line in ours:
        changed = line
        for pattern, put in (*EXECUTED[name], *COMMON):
            changed = re.sub(pattern, put, changed)
        changed = changed.replace("{port}", str(world.port))
        made.append(changed.replace("{rehearsal}", str(world.rehearsal)))
    return made


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [name for name in EXECUTED if name != "README.md"])
def test_a_page_s_commands_work_in_their_order(name: str, world: World) -> None:
    ran = 0
    for line in _prepared(name, world):
        if line.startswith("curator serve") or line == "curator rehearse":
            continue  # the fixture has it running
        if line.startswith("curator rehearse"):
            process, _ = _serve(world.folder, *line.split()[1:])
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        elif "accept-restored" in line:
            with pytest.raises(AssertionError, match="Stop it first"):
                world.run(line)  # it serves, and nothing was restored: tests/unit/curator/ledger
        else:
            world.run(line)
        ran += 1
    assert ran or name == "how-to/recover-after-a-crash.md"


@pytest.mark.timeout(900)
def test_the_readme_from_top_to_bottom(tmp_path: Path, world: World) -> None:
    """In a folder of its own: it begins with `curator init`."""
    _materials(tmp_path)
    (tmp_path / "RECIPE.toml").write_text((world.folder / "RECIPE.toml").read_text())
    lines = _prepared("README.md", world)
    serving = next(i for i, line in enumerate(lines) if line.startswith("curator serve"))
    mine = World(folder=tmp_path)
    for line in lines[:serving]:
        mine.run(line)
    (made,) = tmp_path.glob("weir/analysts/alice.credentials.json")
    made.rename(tmp_path / "alice.credentials.json")  # handed over
    process, port = _serve(tmp_path, "serve", "--dir", "weir")
    try:
        for line in lines[serving + 1 :]:
            if not line.startswith("curator rehearse"):
                mine.run(line.replace(f"localhost:{world.port}", f"localhost:{port}"))
    finally:
        process.send_signal(signal.SIGTERM)
        ended = process.wait(60)
    assert ended == 0
    assert (tmp_path / "runs" / "mnist" / "certificate.json").exists()
