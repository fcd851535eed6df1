"""Bad input at every door: a clear message, nothing charged, nothing lost, exit code not 0."""

from __future__ import annotations

import shlex
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import analyst
from analyst.errors import AnalystError, CuratorUnreachable, RequestRefused
from curator.cli import ExitCode
from tests.e2e.conftest import (
    OVER_BOTH_WIRES,
    SINKHORN,
    Local,
    Process,
    another_digits_folder,
    batch,
    credentials,
    digits_folder,
    run_cli,
)

pytestmark = pytest.mark.e2e

ADD = [
    *("--epsilon", "10", "--delta", "1e-5", "--adjacency", "add-or-remove-one-record"),
    *("--classes", "a,b,c", "--image-shape", "1x4x5", "--nominal-size", "3", "--max-size", "9"),
    *("--sampling-rate", "0.5", "--capacity", "8"),
]


def image(value: float) -> torch.Tensor:
    images = batch()[0]
    images[3, 0, 2, 1] = value
    return images


LABELS = torch.arange(12) % 10


@OVER_BOTH_WIRES
@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (batch()[0].reshape(12, 8, 8), LABELS),
        (batch()[0].reshape(12, 1, 4, 16), LABELS),
        (batch(11)[0], LABELS[:11]),
        (batch(13)[0], torch.arange(13) % 10),
        (torch.zeros((0, 1, 8, 8)), LABELS[:0]),
        (batch()[0], LABELS[:5]),
        (batch()[0], LABELS + 1),
        (batch()[0], LABELS - 1),
        (image(float("nan")), LABELS),
        (image(float("inf")), LABELS),
        (image(1.5), LABELS),
    ],
)
def test_a_bad_batch(
    local: Local, images: torch.Tensor, labels: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analyst.client.codec._check_batch", lambda *_: None)  # another client
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)
        before = barrier.budget("digits")
        with pytest.raises(RequestRefused) as caught:
            run.gradient(images, labels)
        assert caught.value.reason == "MALFORMED_REQUEST"
        assert "nothing was charged" in str(caught.value)
        assert barrier.budget("digits") == before
        assert barrier.resume_run(run.run_id).next_step == 1
        run.gradient(*batch())
        assert run.next_step == 2


@OVER_BOTH_WIRES
def test_a_step_out_of_order_and_an_unknown_run(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=5)
        run.next_step = 4
        run.gradient(*batch())  # the client asks where the run stands and sends that step
        assert run.next_step == 2
        with pytest.raises(RequestRefused) as caught:
            barrier.resume_run("0" * 32)
        assert caught.value.reason == "UNKNOWN_RUN"
        with pytest.raises(RequestRefused) as caught:
            barrier.budget("nothing")
        assert caught.value.reason == "UNKNOWN_DATASET"


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": 0},
        {"noise_multiplier": -1.0},
        {"sampling_rate": 0.5},
        {"clip_norm": 0.0},
        {"num_samples": 0},
        {"schedule": "fast"},
        {"surprise": 1},
    ],
)
def test_bad_parameters_open_nothing(local: Local, change: dict[str, Any]) -> None:
    with local.connect() as barrier:
        with pytest.raises(RequestRefused):
            barrier.open_run("digits", "dp-sinkhorn", SINKHORN | change, num_steps=1)
        assert barrier.budget("digits").reserved == 0.0


def write_idx(path: Path, array: np.ndarray) -> Path:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes())
    return path


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda images, labels: images.write_bytes(images.read_bytes()[:-3]), "header declares"),
        (lambda images, labels: images.write_bytes(b""), "empty"),
        (lambda images, labels: images.write_bytes(b"PNG " * 30), "magic"),
        (lambda images, labels: write_idx(labels, np.array([0, 1])), "3 images but 2 labels"),
        (lambda images, labels: write_idx(labels, np.array([0, 1, 7])), "labels run from 0 to 7"),
        (lambda images, labels: images.unlink(), "no such file"),
    ],
)
def test_a_damaged_data_set_file(
    tmp_path: Path, damage: Callable[[Path, Path], Any], words: str
) -> None:
    run_cli("curator", "init", str(tmp_path / "curator"))
    images = write_idx(tmp_path / "images.idx", np.zeros((3, 4, 5)))
    labels = write_idx(tmp_path / "labels.idx", np.array([0, 1, 2]))
    damage(images, labels)
    command = ["dataset", "add", "set", f"{images},{labels}", "--dir", str(tmp_path / "curator")]
    done = run_cli("curator", *command, *ADD)
    assert done.returncode == ExitCode.FAILED
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "no data set yet" in run_cli("curator", "budget", "--dir", command[-1]).stdout
    write_idx(images, np.zeros((3, 4, 5)))
    write_idx(labels, np.array([0, 1, 2]))
    assert run_cli("curator", *command, *ADD).returncode == 0  # nothing is left in the way


def test_a_data_set_is_added_once_and_never_under_another_name(tmp_path: Path) -> None:
    folder = digits_folder(tmp_path / "curator")
    facts = [
        *("--epsilon", "10", "--delta", "1e-5", "--adjacency", "add-or-remove-one-record"),
        *("--classes", "0,1,2,3,4,5,6,7,8,9", "--image-shape", "1x8x8", "--max-level", "16"),
        *("--nominal-size", "1437", "--max-size", "2000"),
        *("--sampling-rate", "0.01", "--capacity", "96", "--dir", str(folder.root)),
    ]
    for name, words in (("digits", "never change"), ("again", "registered as 'digits'")):
        done = run_cli("curator", "dataset", "add", name, "sklearn:digits-private", *facts)
        assert done.returncode == ExitCode.FAILED
        assert words in done.stderr


class TestServing:
    def test_an_unknown_configuration_key(self, tmp_path: Path) -> None:
        folder = digits_folder(tmp_path / "curator")
        folder.config.write_text("[grpc]\nprot = 1\n")
        done = run_cli("curator", "serve", "--dir", str(folder.root))
        assert done.returncode == ExitCode.FAILED
        assert "grpc.prot: unknown key" in done.stderr

    @pytest.mark.parametrize("option", ["--grpc-port", "--rest-port"])
    def test_a_port_in_use(self, tmp_path: Path, option: str) -> None:
        folder = digits_folder(tmp_path / "curator")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            other = "--rest-port" if option == "--grpc-port" else "--grpc-port"
            done = run_cli("curator", "serve", "--dir", str(folder.root), option, port, other, "0")
        assert done.returncode == ExitCode.PORT
        assert f"choose {option}" in done.stderr
        assert "ready" not in done.stdout

    def test_a_folder_that_is_not_a_curator_s(self, tmp_path: Path) -> None:
        done = run_cli("curator", "serve", "--dir", str(tmp_path))
        assert done.returncode == ExitCode.FAILED
        assert f"first run: {shlex.join(['curator', 'init', str(tmp_path)])}" in done.stderr

    def test_no_tls_outside_loopback(self, tmp_path: Path) -> None:
        folder = digits_folder(tmp_path / "curator")
        done = run_cli(
            *("curator", "serve", "--dir", str(folder.root), "--insecure-loopback"),
            *("--grpc-host", "0.0.0.0"),  # noqa: S104 - it is refused
        )
        assert done.returncode == ExitCode.FAILED
        assert "127.0.0.1" in done.stderr

    def test_a_second_writer_is_refused_while_serving(
        self, tmp_path: Path, serve: Callable[..., Process]
    ) -> None:
        folder = digits_folder(tmp_path / "curator")
        process = serve(folder)
        restored = ["ledger", "accept-restored", "--reason", "x"]
        for command in (["serve"], restored):
            done = run_cli("curator", *command, "--dir", str(folder.root))
            assert done.returncode == ExitCode.LEDGER
            assert "Traceback" not in done.stderr
        assert run_cli("curator", "init", str(folder.root)).returncode == 0  # safe to run again
        assert (
            run_cli("curator", "analyst", "add", "carol", "--dir", str(folder.root)).returncode == 0
        )
        with process.connect("carol") as barrier:  # known at once
            assert barrier.budget("digits").spent == 0.0

    def test_plain_text_on_loopback_needs_a_token_all_the_same(
        self, tmp_path: Path, serve: Callable[..., Process]
    ) -> None:
        folder = digits_folder(tmp_path / "curator")
        process = serve(folder, "--insecure-loopback")
        with process.connect(insecure_loopback=True) as barrier:
            assert barrier.budget("digits").epsilon == 10.0
        other = another_digits_folder(tmp_path / "other")
        process.folder = other
        with (
            process.connect(insecure_loopback=True) as barrier,
            pytest.raises(RequestRefused, match="credentials"),
        ):
            barrier.budget("digits")


_PATIENCE = 23.0  # seconds: two tries of ten, and what lies between


class TestReachingTheCurator:
    @pytest.mark.waits
    def test_nobody_there(self, tmp_path: Path) -> None:
        folder = digits_folder(tmp_path / "curator")
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            target = f"localhost:{unused.getsockname()[1]}"
        asked = ("analyst", "budget", "--curator", target, "--credentials")
        started = time.monotonic()
        run_cli(*asked, str(tmp_path / "missing.json"))
        refused = time.monotonic()
        done = run_cli(*asked, str(credentials(folder, "alice")))
        waited, starting = time.monotonic() - refused, refused - started
        assert waited < _PATIENCE + 10 + 5 * starting  # a busy machine starts everything slowly
        assert done.returncode not in {0, 1}
        assert "No curator answers" in done.stderr
        assert "firewall" in done.stderr
        assert "Traceback" not in done.stderr

    def test_the_port_of_the_rest_api(self, local: Local) -> None:
        target = f"localhost:{local.curator.rest.port}"
        with pytest.raises(CuratorUnreachable, match="looks like the REST port"):
            analyst.connect(target, credentials=credentials(local.folder, "alice"), timeout=2.0)

    def test_another_authority(self, local: Local, tmp_path: Path) -> None:
        other = another_digits_folder(tmp_path / "other")
        stranger = Local(folder=other, curator=local.curator)
        with pytest.raises(CuratorUnreachable, match="certificate"):
            stranger.connect(timeout=2.0)

    @pytest.mark.parametrize("content", [None, "", "{}", "[1]", '{"analyst": "a"}'])
    def test_damaged_credentials(self, local: Local, tmp_path: Path, content: str | None) -> None:
        path = tmp_path / "me.json"
        if content is not None:
            path.write_text(content)
        import analyst

        with pytest.raises(AnalystError, match="analyst add"):
            analyst.connect(f"localhost:{local.curator.rpc.port}", credentials=path)
