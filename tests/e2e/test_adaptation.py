"""Domain adaptation through a real curator: asked, answered, charged, resumed, measured."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from analyst.adaptation.networks import build_classifier, weight_bytes
from analyst.adaptation.recipe import AdaptationRecipe, adaptation_from_dict
from analyst.adaptation.session import AdaptationOptions, resume_adaptation, start_adaptation
from analyst.cli import ExitCode, main
from analyst.errors import AnalystError, CheckpointError
from analyst.generators.generator import ImageShape
from analyst.training.checkpoint import checkpoint_store
from analyst.training.loop import Outcome
from analyst.training.progress import Progress
from curator.accounting.explain import explain
from curator.mechanisms.described import read_described
from tests.e2e.conftest import Local, batch, credentials
from tests.fakes.adaptation import StopAfter, table, toml, write_digits

pytestmark = pytest.mark.e2e

MOVES: list[dict[str, Any]] = [
    {"kind": "extractor", "weight": 0.1},
    {"kind": "source-map", "lr": 0.001, "lens_seed": 4},
]
SHAPE = ImageShape(channels=1, height=8, width=8, num_classes=10)


def recipe(**changes: Any) -> AdaptationRecipe:
    return adaptation_from_dict(table(**changes), origin="test")


def weights(seed: int = 0) -> bytes:
    given = recipe().mechanism
    model = build_classifier(
        given.architecture,
        SHAPE,
        torch.Generator().manual_seed(seed),
        num_features=given.num_features,
        clip_norm=given.clip_norm,
    )
    return weight_bytes(model.extractor)


def access(local: Local) -> list[str]:
    target = f"localhost:{local.curator.rpc.port}"
    return ["--curator", target, "--credentials", str(credentials(local.folder, "alice"))]


@pytest.mark.parametrize("move", MOVES, ids=["extractor", "source-map"])
def test_the_command_adapts_resumes_and_measures(
    local: Local, tmp_path: Path, capsys: pytest.CaptureFixture[str], move: dict[str, Any]
) -> None:
    source, out = write_digits(tmp_path / "source.npz"), tmp_path / "run"
    test = write_digits(tmp_path / "test.npz", 400, 1300)
    file = tmp_path / "recipe.toml"
    file.write_text(toml({**table(training__warm_up=300), "move": move}))
    train = ["adapt", "train", *access(local), "--source", str(source), "--out", str(out)]
    assert main([*train, "--recipe", str(file), "--set", "training.steps=4"]) == ExitCode.OK
    with local.connect() as barrier:
        spent = barrier.budget("digits").spent
    known = {"nominal_size": 1437, "epsilon": 10.0, "delta": 1e-4}
    declared = read_described(table(training__steps=4), known)
    assert spent == explain(declared, cross_check=False).ledger_epsilon > 0
    certificate = json.loads((out / "certificate.json").read_text())
    assert "dp-swd-features" in json.dumps(certificate)
    assert main([*train, "--resume"]) == ExitCode.OK  # there is nothing left to do
    assert main([*train, "--recipe", str(file)]) == ExitCode.FILES  # it holds a run
    capsys.readouterr()
    assert main(["adapt", "test", str(out), "--test", str(test), "--json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["num_images"] == 400
    assert found["accuracy"] > 0.75


def test_a_run_that_was_stopped_goes_on_where_the_ledger_says(local: Local, tmp_path: Path) -> None:
    source, out = write_digits(tmp_path / "source.npz"), tmp_path / "run"

    def options(images: Path, checks: float = float("inf")) -> AdaptationOptions:
        quiet = Progress(io.StringIO())
        return AdaptationOptions(out=out, source=images, progress=quiet, stop=StopAfter(checks))

    with local.connect() as barrier:
        assert start_adaptation(barrier, recipe(), options(source, 63)) is Outcome.STOPPED
        _, manifest = checkpoint_store(out).load()
        assert 1 < manifest.next_step < 6
        run = barrier.resume_run(manifest.run_id)
        run.feature_gradient(torch.zeros(40, 8), weights())  # an answer that is lost
        other = write_digits(tmp_path / "other.npz", 900)
        with pytest.raises(CheckpointError, match="does not hold the images"):
            resume_adaptation(barrier, options(other))
        assert resume_adaptation(barrier, options(source)) is Outcome.COMPLETED
        assert not barrier.resume_run(manifest.run_id).is_open
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [one["first"] for one in events if one["kind"] == "skipped"] == [manifest.next_step]
    assert sum(one["kind"] == "update" for one in events) == 5


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "weights"),
        (b"junk", "safetensors"),
        (b"\xff" * 100_000, "safetensors"),
        (save({"hidden.weight": torch.zeros(256, 64)}), "safetensors"),
    ],
)
def test_weights_that_are_not_declared_are_refused_and_free(
    local: Local, sent: bytes, words: str
) -> None:
    with local.connect() as barrier:
        parameters = recipe().mechanism.parameters(barrier.describe("digits"))
        run = barrier.open_run("digits", "dp-swd-features", parameters, num_steps=2)
        with pytest.raises(AnalystError, match=words):
            run.feature_gradient(torch.zeros(40, 8), sent)
        with pytest.raises(AnalystError, match="features"):
            run.gradient(*batch(rows=40))
        assert barrier.budget("digits").spent == 0
        assert bool(run.feature_gradient(torch.zeros(40, 8), weights()).isfinite().all())
        assert barrier.budget("digits").spent > 0


def test_a_lost_answer_is_given_again_and_other_weights_are_another_request(local: Local) -> None:
    with local.connect() as barrier:
        parameters = recipe().mechanism.parameters(barrier.describe("digits"))
        run = barrier.open_run("digits", "dp-swd-features", parameters, num_steps=3)
        twin = barrier.resume_run(run.run_id)
        features = torch.ones(40, 8)
        answer = run.feature_gradient(features, weights())
        assert torch.equal(twin.feature_gradient(features, weights()), answer)
        late = barrier.resume_run(run.run_id)
        run.feature_gradient(features, weights())
        with pytest.raises(AnalystError):
            late.feature_gradient(features, weights(1))
