"""A rehearsal as a researcher meets it: free, loudly marked, and worth nothing as evidence."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from analyst.cli import ExitCode
from tests.e2e.conftest import ROOT, run_cli
from tests.e2e.forks import Forked

pytestmark = pytest.mark.e2e

BANNER = "*** REHEARSAL ***"


def run(package: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command that ends with a code."""
    done = run_cli(package, *arguments)
    assert done.returncode == code, done.stderr
    return done


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    folder: Path
    said: str
    grpc_port: int
    rest_port: int

    @property
    def access(self) -> list[str]:
        file = self.folder / "analysts" / "rehearser.credentials.json"
        return ["--curator", f"localhost:{self.grpc_port}", "--credentials", str(file)]


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    folder = tmp_path_factory.mktemp("rehearsing") / "my rehearsal"
    words = ("curator", "rehearse", "--dir", str(folder), "--grpc-port", "0", "--rest-port", "0")
    reading, writing = os.pipe()
    with Path(os.devnull).open("w") as nowhere:
        process = Forked(words, stdout=writing, stderr=nowhere.fileno())
    os.close(writing)
    lines, said = os.fdopen(reading), list[str]()
    for line in lines:
        said.append(line)
        if line.startswith("ready:"):
            break
    grpc, rest = re.findall(r":(\d+) ", said[-1])[:2]
    yield Rehearsal(folder=folder, said="".join(said), grpc_port=int(grpc), rest_port=int(rest))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    lines.close()


def test_it_is_marked_wherever_one_looks(rehearsal: Rehearsal) -> None:
    assert rehearsal.said.count(BANNER) == 4
    assert "ready: REHEARSAL" in rehearsal.said
    assert shlex.join(rehearsal.access) in rehearsal.said  # as it can be typed
    budget = run("analyst", "budget", *rehearsal.access)
    assert BANNER in budget.stdout
    assert "no limit" in budget.stdout
    assert BANNER in run("curator", "budget", "--dir", str(rehearsal.folder)).stdout
    listed = run("curator", "dataset", "list", "--dir", str(rehearsal.folder), "--json").stdout
    (facts,) = json.loads(listed)
    assert facts["rehearsal"] is True
    for path, mark in (
        ("/v1/datasets/rehearsal-digits", '"rehearsal":true'),
        ("/v1/datasets/rehearsal-digits/budget", '"rehearsal":true'),
        ("/dashboard", "<strong>Rehearsal.</strong>"),
        ("/metrics", 'dataset="rehearsal-digits"'),
    ):
        assert mark in _page(rehearsal, path)


def test_its_certificate_is_no_evidence(rehearsal: Rehearsal, tmp_path: Path) -> None:
    train = ["train", *rehearsal.access, "--recipe", "embedding-digits", "--steps", "2"]
    done = run("analyst", *train, "--dataset", "rehearsal-digits", "--out", str(tmp_path / "r"))
    assert BANNER in done.stderr
    file = tmp_path / "r" / "certificate.json"
    statement = json.loads(file.read_text())["statement"]
    assert statement["format"] == "weir-rehearsal-certificate-1"
    assert statement["dataset"]["promise"] is None
    assert "certifies nothing" in statement["rehearsal"]
    verified = run(
        "analyst", "certificate", "verify", str(file), *rehearsal.access[2:],
        code=ExitCode.REHEARSAL,
    )  # fmt: skip
    assert verified.stdout.count("REHEARSAL: this certifies NOTHING") == 2
    assert "promise    NONE" in verified.stdout
    assert "what to do" in verified.stderr


def test_endless_training_is_refused_and_any_number_of_steps_is_not(
    rehearsal: Rehearsal, tmp_path: Path
) -> None:
    train = [
        "train", *rehearsal.access, "--recipe", "dp-sinkhorn-digits", "--generator-width", "8",
        "--dataset", "rehearsal-digits", "--mechanism-noise-multiplier", "0.2",
    ]  # fmt: skip
    endless = run("analyst", *train, "--out", str(tmp_path / "a"), code=ExitCode.RECIPE)
    assert "would never end" in endless.stderr
    run("analyst", *train, "--out", str(tmp_path / "b"), "--steps", "3")
    (budget,) = json.loads(run("analyst", "budget", *rehearsal.access, "--json").stdout)
    assert budget["epsilon"]["spent"] > 20  # no private data set could have paid for it


def test_the_ledger_of_a_rehearsal_is_a_real_one(rehearsal: Rehearsal, tmp_path: Path) -> None:
    file = tmp_path / "ledger.jsonl"
    run("curator", "ledger", "export", "--dir", str(rehearsal.folder), "--out", str(file))
    verified = run("curator", "ledger", "verify", str(file))
    assert "chain and costs hold" in verified.stdout
    assert BANNER in verified.stdout


def test_questions_are_answered_without_slow_packages(rehearsal: Rehearsal) -> None:
    """The answers too: the unit test sees only what is imported before a curator answers."""
    plan = [
        "plan", *rehearsal.access, "--dataset", "rehearsal-digits", "--recipe",
        "dp-sinkhorn-digits", "--for-steps", "10", "--plot",
    ]  # fmt: skip
    program = (
        "import sys; from analyst.cli import main; "
        f"codes = main({['budget', *rehearsal.access]!r}), main({plan!r}); "
        "sys.exit(any(codes) or 'torch' in sys.modules or 'sklearn' in sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=ROOT, capture_output=True, timeout=60
    )


def _page(rehearsal: Rehearsal, path: str) -> str:
    identity = rehearsal.folder / "identity"
    token = json.loads((identity / "steward.credentials.json").read_text())["token"]
    context = ssl.create_default_context(cafile=identity / "ca.pem")
    request = urllib.request.Request(
        f"https://localhost:{rehearsal.rest_port}{path}",
        headers={"Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request, context=context, timeout=30) as answer:
        text: str = answer.read().decode()
    return text
