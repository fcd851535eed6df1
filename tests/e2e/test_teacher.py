"""A linear teacher through a real curator: learned, charged, killed, resumed, and put to use."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

from analyst.cli import ExitCode, main
from analyst.errors import AnalystError
from analyst.teacher.recipe import TEACHERS, TeacherRecipe
from analyst.teacher.session import (
    TeacherOptions,
    load_teacher,
    resume_teacher,
    start_teacher,
)
from analyst.training.checkpoint import checkpoint_store
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from curator.accounting.explain import explain
from curator.mechanisms.described import read_described
from tests.e2e.conftest import Local, Process, batch, credentials, digits_folder
from tests.fakes.adaptation import StopAfter, write_digits

pytestmark = pytest.mark.e2e

SMALL = {
    "mechanism.features": "mlp-features",
    "mechanism.num_features": 12,
    "source.epochs": 4,
    "training.steps": 6,
}


def recipe(**changes: Any) -> TeacherRecipe:
    keys = {key.replace("__", "."): value for key, value in changes.items()}
    return TEACHERS.load("linear-teacher-digits", SMALL | keys)


def access(local: Local) -> list[str]:
    target = f"localhost:{local.curator.rpc.port}"
    return ["--curator", target, "--credentials", str(credentials(local.folder, "alice"))]


def options(out: Path, source: Path | None, stop: StopAfter) -> TeacherOptions:
    return TeacherOptions(out=out, source=source, progress=Progress(io.StringIO()), stop=stop)


def test_the_command_teaches_tests_and_refines(
    local: Local, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a map of zeros on pixels; then a third of the labels of a file are wrong."""
    out, test = tmp_path / "run", write_digits(tmp_path / "test.npz", 350, 1440)
    train = ["teacher", "train", *access(local), "--out", str(out)]
    assert main([*train, "--recipe", "linear-teacher-digits"]) == ExitCode.OK
    known = {"nominal_size": 1437, "epsilon": 10.0, "delta": 1e-4}
    loaded = TEACHERS.to_dict(TEACHERS.load("linear-teacher-digits"))
    declared = read_described({key: loaded[key] for key in ("mechanism", "training")}, known)
    with local.connect() as barrier:
        assert barrier.budget("digits").spent == explain(declared, cross_check=False).ledger_epsilon
    assert "linear-teacher" in (out / "certificate.json").read_text()
    assert main([*train, "--resume"]) == ExitCode.OK  # there is nothing left to do
    capsys.readouterr()
    assert main(["teacher", "test", str(out), "--test", str(test), "--json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["num_images"] == 350
    assert found["accuracy"] > 0.7

    generator = ["train", *access(local), "--out", str(tmp_path / "guided"), "--steps", "2"]
    generator += ["--recipe", "dp-sinkhorn-digits", "--teacher", str(out)]
    assert main(generator) == ExitCode.RECIPE  # it would not count
    assert main([*generator, "--set", "training.guidance=0.1"]) == ExitCode.OK
    _, manifest = checkpoint_store(tmp_path / "guided").load()
    assert manifest.dataset["teacher_run"] == checkpoint_store(out).load()[1].run_id
    capsys.readouterr()
    other = ["--out", str(tmp_path / "guided"), "--resume"]  # of another kind
    assert main(["teacher", "train", *access(local), *other]) == ExitCode.FILES
    assert "is of dp-sinkhorn, and not of 'analyst teacher train'" in capsys.readouterr().err

    made, refined = tmp_path / "made.npz", tmp_path / "refined.npz"
    with np.load(write_digits(tmp_path / "large.npz", 300, 1440)) as file:
        labels = file["labels"].copy()
        labels[:100] = (labels[:100] + 1) % 10
        np.savez(made, images=file["images"][:, ::2, ::2], labels=labels)
        true = file["labels"]
    use = ["refine", str(made), "--teacher", str(out), "--json"]
    assert main([*use, "--out", str(refined)]) == ExitCode.OK
    answer = json.loads(capsys.readouterr().out)
    assert answer["num_images"] == 300
    with np.load(refined) as file:
        assert (file["labels"][:100] == true[:100]).mean() > 0.7
    assert main([*use, "--out", str(refined), "--how", "drop"]) == ExitCode.FILES  # it exists
    assert main([*use, "--out", str(refined), "--how", "drop", "--force"]) == ExitCode.OK
    with np.load(refined) as file:
        assert 150 < len(file["labels"]) < 250


def test_class_sums_guide_a_generator(local: Local, tmp_path: Path) -> None:
    source, sums = write_digits(tmp_path / "source.npz", 400), tmp_path / "sums"
    ask = ["--set", "mechanism.asks=class-sums", "--set", "mechanism.clip_norm=1.0"]
    once = {"training.steps": 1, "mechanism.noise_multiplier": 1.5}
    for key, value in (SMALL | once).items():
        ask += ["--set", f"{key}={value}"]
    train = ["teacher", "train", *access(local), "--source", str(source), "--out", str(sums)]
    assert main([*train, "--recipe", "linear-teacher-digits", *ask]) == ExitCode.OK
    means = load_teacher(sums).means_KR
    assert means.shape == (10, 26)
    norms = means.reshape(10, 2, 13).norm(dim=2)
    assert bool((norms > 0.5).all())  # means of rows of norm 1, of which a class's are alike
    assert bool((norms < 1.2).all())
    refine = ["refine", str(source), "--teacher", str(sums), "--out", str(tmp_path / "r.npz")]
    for use in (refine, ["teacher", "test", str(sums), "--test", str(source)]):
        assert main(use) == ExitCode.FILES  # it taught no map
    generator = ["train", *access(local), "--out", str(tmp_path / "guided"), "--steps", "2"]
    generator += ["--recipe", "dp-sinkhorn-digits", "--teacher", str(sums)]
    assert main([*generator, "--set", "training.guidance=0.1"]) == ExitCode.OK


def test_a_run_that_was_stopped_goes_on_without_its_source(local: Local, tmp_path: Path) -> None:
    source, out = write_digits(tmp_path / "source.npz", 400), tmp_path / "run"
    with local.connect() as barrier:
        assert start_teacher(barrier, recipe(), options(out, source, StopAfter(2))) is (
            Outcome.STOPPED
        )
        tensors, manifest = checkpoint_store(out).load()
        assert manifest.next_step == 3
        run = barrier.resume_run(manifest.run_id)
        run.feature_gradient(torch.zeros(10, 13), save(network(tensors)))  # a lost answer
        source.unlink()
        assert resume_teacher(barrier, options(out, None, StopAfter())) is Outcome.COMPLETED
        assert not barrier.resume_run(manifest.run_id).is_open
    after, _ = checkpoint_store(out).load()
    assert all(torch.equal(network(after)[name], one) for name, one in network(tensors).items())
    teacher = load_teacher(out)
    assert teacher.model(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    assert (teacher.shape.height, teacher.shape.num_classes) == (8, 10)


def network(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    start = "model.extractor."
    return {name.removeprefix(start): v for name, v in tensors.items() if name.startswith(start)}


def test_a_curator_that_is_killed_goes_on_from_its_records(
    tmp_path: Path, serve: Callable[..., Process]
) -> None:
    """A step is charged before it is computed, and nothing of a state is missed after a restart."""
    folder = digits_folder(tmp_path / "curator")
    curator, linear = serve(folder), torch.ones(10, 65)
    with curator.connect() as barrier:
        sent = pixels().parameters(barrier.describe("digits"))
        run = barrier.open_run("digits", "linear-teacher", sent, num_steps=4)
        run.feature_gradient(linear, save({}))
        spent = barrier.budget("digits").spent
        curator.kill()
    with serve(folder).connect() as barrier:
        again = barrier.resume_run(run.run_id)
        assert again.is_open
        step = again.next_step
        assert step > 1  # a crash may cost a block of steps, and gives none back
        assert bool(again.feature_gradient(linear, save({})).isfinite().all())
        assert barrier.budget("digits").spent >= spent > 0


def pixels() -> Any:
    return recipe(mechanism__features="pixels", mechanism__num_features=0).mechanism


@pytest.mark.parametrize(
    ("linear", "weights", "words"),
    [
        (torch.zeros(10, 64), save({}), "10 rows of 65 weights"),
        (torch.zeros(9, 65), save({}), "10 rows of 65 weights"),
        (torch.full((10, 65), 1e6), save({}), "finite weights of at most 4096"),
        (torch.zeros(10, 65), save({"w": torch.zeros(0)}), "no tensors"),
        (torch.zeros(10, 65), b"", "weights"),
    ],
)
def test_what_was_not_declared_is_refused_and_free(
    local: Local, linear: torch.Tensor, weights: bytes, words: str
) -> None:
    with local.connect() as barrier:
        sent = pixels().parameters(barrier.describe("digits"))
        run = barrier.open_run("digits", "linear-teacher", sent, num_steps=2)
        with pytest.raises(AnalystError, match=words):
            run.feature_gradient(linear, weights)
        with pytest.raises(AnalystError, match="features"):
            run.gradient(*batch(rows=10))
        assert barrier.budget("digits").spent == 0
