"""The report is one file that needs nothing else, and says what was given."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from PIL import Image

from analyst.cli import ExitCode, main
from analyst.errors import EvaluationError
from analyst.evaluation.image_file import LabelledImages, load_images, save_images
from analyst.evaluation.result import load_point
from analyst.evaluation.run_folder import read_run_folder
from analyst.training.checkpoint import Manifest, checkpoint_store

EXTERNAL = re.compile(r"""(?:src|href)\s*=\s*["'](?!data:)|url\(|@import|<script""")


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analyst.evaluation.lenet._LEAST_STEPS", 10)


def _images(path: Path, seed: int, *, num: int = 60, channels: int = 1) -> Path:
    """Class c is bright in column c."""
    images = np.random.default_rng(seed).integers(0, 60, (num, channels, 8, 8), dtype=np.uint8)
    labels = np.arange(num) % 3
    for image, label in zip(images, labels, strict=True):
        image[:, :, label] = 250
    save_images(path, LabelledImages(images, labels.astype(np.int64)), force=True)
    return path


def _statement(epsilon: float) -> dict[str, Any]:
    return {
        "format": "weir-privacy-certificate-1",
        "dataset": {
            "name": "<digits>",
            "adjacency": "add-or-remove-one-record",
            "promise": {"epsilon": 10.0, "delta": 1e-5},
            "spent_epsilon": epsilon,
        },
        "run": {
            "id": "r1",
            "analyst": "alice",
            "mechanism": "dp-sinkhorn",
            "used_steps": 3,
            "declared_steps": 3,
            "close_reason": "declared steps used",
        },
        "this_run_alone_at_its_declared_steps": {"epsilon": epsilon / 2},
        "ledger_head": {"sequence": 4, "digest": "ab" * 32},
    }


def _run_folder(path: Path, *, epsilon: float | None = 2.5) -> Path:
    """Write what a run leaves: metrics, and a certificate if it is closed."""
    path.mkdir()
    lines = [{"kind": "opened", "next_step": 1}]
    lines += [
        {"kind": "update", "step": step, "gradient_norm": 1.0 / step, "spent_epsilon": 0.1 * step}
        for step in (1, 2, 3)
    ]
    text = "\n".join(json.dumps(line) for line in lines) + "\n" + '{"kind": "half'
    (path / "metrics.jsonl").write_text(text)
    if epsilon is not None:
        statement = _statement(epsilon)
        key = Ed25519PrivateKey.generate()
        signed = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
        content = {
            "statement": statement,
            "public_key": base64.b64encode(
                key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
            ).decode(),
            "signature": base64.b64encode(key.sign(signed)).decode(),
        }
        (path / "certificate.json").write_text(json.dumps(content))
    return path


def _evaluate(tmp_path: Path, out: str, *options: str, channels: int = 1) -> int:
    synthetic = _images(tmp_path / "s.npz", 0, channels=channels)
    test = _images(tmp_path / "t.npz", 1, channels=channels)
    argv = ["evaluate", str(synthetic), "--test", str(test), "--out", str(tmp_path / out)]
    return main([*argv, *options])


def test_a_full_report_is_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    public = _images(tmp_path / "p.npz", 2)
    first, second = (_run_folder(tmp_path / f"r{e}", epsilon=e) for e in (1.0, 4.0))
    assert _evaluate(tmp_path, "a", "--run", str(first), "--classifier", "logistic") == ExitCode.OK
    options = ("--run", str(second), "--compare", str(tmp_path / "a" / "evaluation.json"))
    code = _evaluate(tmp_path, "b", "--public", str(public), "--name", "<b> & co", *options)
    assert code == ExitCode.OK
    text = capsys.readouterr().out
    assert "LeNet-feature FID" in text
    assert "mean accuracy of 3 classifiers: " in text
    assert "--features inception" in text

    page = (tmp_path / "b" / "report.html").read_text()
    assert not EXTERNAL.search(page)
    assert "<h1>&lt;b&gt; &amp; co</h1>" in page
    assert "&lt;digits&gt;, add-or-remove-one-record" in page
    for heading in ("Samples", "Distances", "Classifiers", "Privacy and utility", "Training"):
        assert f"<h2>{heading}" in page
    pictures = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", page)
    names = {path.stem for path in (tmp_path / "b").glob("*.png")}
    confusions = {f"confusion-{name}" for name in ("logistic", "mlp", "cnn")}
    assert names == {"samples", "neighbours", "curve", "training"} | confusions
    assert len(pictures) == len(names)
    for encoded in pictures:
        with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
            picture.verify()

    point = load_point(tmp_path / "b" / "evaluation.json")
    assert point.epsilon == 4.0
    assert set(point.accuracies) == {"logistic", "mlp", "cnn"}


def test_colours_without_anything_else(tmp_path: Path) -> None:
    assert _evaluate(tmp_path, "c", "--classifier", "logistic", channels=3) == ExitCode.OK
    page = (tmp_path / "c" / "report.html").read_text()
    assert "Privacy and utility" not in page
    assert "Certificate" not in page
    content = json.loads((tmp_path / "c" / "evaluation.json").read_bytes())
    assert content["privacy"] is None
    assert content["assessment"] is None
    assert np.sum(content["reports"][0]["confusion"]) == 60


def test_an_open_run_has_no_certificate_yet(tmp_path: Path) -> None:
    run = _run_folder(tmp_path / "run", epsilon=None)
    code = _evaluate(tmp_path, "d", "--run", str(run), "--classifier", "logistic")
    assert code == ExitCode.OK
    assert "not closed yet" in (tmp_path / "d" / "report.html").read_text()
    with pytest.raises(EvaluationError, match="does not say what its generator cost"):
        load_point(tmp_path / "d" / "evaluation.json")


def _add_checkpoint(run: Path, run_id: str) -> None:
    words: dict[str, Any] = {"num_updates": 0, "next_step": 1, "num_steps": 3, "finished": False}
    facts = {"name": "digits", "channels": 1, "height": 8, "width": 8, "classes": ["0", "1"]}
    manifest = Manifest(run_id=run_id, dataset=facts, recipe={}, **words)
    checkpoint_store(run).save({"x": torch.zeros(1)}, manifest)


@pytest.mark.parametrize(
    ("says", "code"), [("r1", ExitCode.OK), ("", ExitCode.OK), ("r2", ExitCode.FILES)]
)
def test_images_are_shown_beside_their_own_run_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], says: str, code: ExitCode
) -> None:
    run = _run_folder(tmp_path / "run")
    _add_checkpoint(run, "r1")
    (tensors,) = (run / "checkpoints").glob("*.safetensors")
    tensors.unlink()  # whose generator made them is asked of the manifest alone
    images = _images(tmp_path / "s.npz", 0)
    save_images(images, dataclasses.replace(load_images(images), run_id=says), force=True)
    test = _images(tmp_path / "t.npz", 1)
    argv = ["evaluate", str(images), "--test", str(test), "--run", str(run)]
    assert main([*argv, "--classifier", "logistic"]) == code
    captured = capsys.readouterr()
    assert ("of run r2" in captured.err) == (code is not ExitCode.OK)
    assert ("accuracy" in captured.out) == (code is ExitCode.OK)  # before the training


def test_a_report_is_replaced_with_force_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "evaluation.json"
    file.write_text("mine")
    assert _evaluate(tmp_path, "a", "--classifier", "logistic") == ExitCode.FILES
    assert f"{file} exists already" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert _evaluate(tmp_path, "a", "--classifier", "logistic", "--force") == ExitCode.OK
    assert json.loads(file.read_bytes())["reports"]


def test_metrics_are_read_up_to_the_last_whole_line(tmp_path: Path) -> None:
    folder = read_run_folder(_run_folder(tmp_path / "run"))
    assert folder.curves is not None
    assert folder.curves.steps == (1, 2, 3)
    assert folder.privacy is not None
    assert (folder.privacy.epsilon, folder.privacy.delta) == (2.5, 1e-5)


def test_one_class_is_measured_without_classifiers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = np.random.default_rng(0).integers(0, 60, (40, 1, 8, 8), dtype=np.uint8)
    one = tmp_path / "one.npz"
    save_images(one, LabelledImages(images, np.zeros(40, np.int64)))
    test = _images(tmp_path / "t.npz", 1)
    argv = ["evaluate", str(one), "--test", str(test), "--out", str(tmp_path / "report")]
    assert main(argv) == ExitCode.OK
    text = capsys.readouterr().out
    assert "one class, so there is nothing to classify" in text
    assert "density" in text
    written = json.loads((tmp_path / "report" / "evaluation.json").read_text())
    assert written["reports"] == []
    assert main([*argv[:4], "--classifier", "logistic"]) == ExitCode.FILES


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--run", "nowhere"], "nowhere is not the directory of a run"),
        (["--compare", "no.json"], "no.json is not an evaluation"),
        (["--inception-weights", "no.pt"], "cannot read the Inception weights no.pt"),
        (["--features", "inception"], "cannot read the Inception weights"),
        (["--device", "abacus"], "cannot use the device 'abacus'"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    text: str,
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert _evaluate(tmp_path, "e", *options) == ExitCode.FILES
    captured = capsys.readouterr()
    assert text in captured.err
    assert "what to do: " in captured.err
    assert "accuracy" not in captured.out  # before the training, not after it


def test_a_damaged_certificate_and_damaged_metrics_are_refused(tmp_path: Path) -> None:
    run = _run_folder(tmp_path / "run")
    certificate = run / "certificate.json"
    certificate.write_text(certificate.read_text().replace('"used_steps": 3', '"used_steps": 2'))
    options = ("--run", str(run), "--classifier", "logistic")
    assert _evaluate(tmp_path, "f", *options) == ExitCode.FAILED
    certificate.unlink()
    (run / "metrics.jsonl").write_text('{"kind": "update"}\n')
    assert _evaluate(tmp_path, "f", *options) == ExitCode.FILES


def test_a_missing_package_is_said_before_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert _evaluate(tmp_path, "g") == ExitCode.FILES
    captured = capsys.readouterr()
    assert "needs matplotlib" in captured.err
    assert "weir-dp[evaluation]" in captured.err
    assert "accuracy" not in captured.out
