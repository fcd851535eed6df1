"""Steps on their way together: in the ledger's order, each charged once, whatever breaks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from curator.clock import utc_now
from curator.ledger.sql_ledger import SqlLedger
from tests.e2e.conftest import (
    OVER_BOTH_WIRES,
    SINKHORN,
    Local,
    Process,
    batch,
    credentials,
    digits_folder,
)

pytestmark = [pytest.mark.e2e, OVER_BOTH_WIRES]


def numbered(count: int, taken: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    for number in range(count):
        taken.append(number)
        yield batch(seed=number)


@pytest.mark.parametrize("depth", [1, 4])
def test_a_batch_is_taken_as_late_as_its_depth_allows(local: Local, depth: int) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=30)
        taken: list[int] = []
        for number, (images, gradient) in enumerate(
            run.gradients(numbered(10, taken), depth=depth)
        ):
            assert torch.equal(images, batch(seed=number)[0])
            assert gradient.shape == images.shape
            assert taken == list(range(min(10, number + depth)))
        assert run.next_step == 11
        run.close()
        assert barrier.resume_run(run.run_id).next_step == 11


def test_it_ends_with_the_declared_steps(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=6)
        assert len(list(run.gradients(numbered(50, []), depth=4))) == 6


def test_what_was_on_its_way_is_awaited_when_nobody_wants_more(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=30)
        pipeline = run.gradients(numbered(10, []), depth=4)
        next(pipeline)
        pipeline.close()  # type: ignore[attr-defined]
        assert run.next_step == 5
        assert run.gradient(*batch()).shape == batch()[0].shape
        run.close()
        assert barrier.resume_run(run.run_id).next_step == 6 + 1 - 1


def test_a_broken_stream_costs_nothing_and_changes_no_answer(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=30)
        count = 0
        for _ in run.gradients(numbered(12, []), depth=4):
            count += 1
            if count in {3, 7}:
                run.hang_up()
        assert count == 12
        run.close()
        assert barrier.resume_run(run.run_id).next_step == 13


def test_a_killed_curator_goes_on_after_its_mark(
    tmp_path: Path, serve: Callable[..., Process]
) -> None:
    folder = digits_folder(tmp_path / "c")
    first = serve(folder)
    with first.connect(patience=60.0) as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=60)
        answers: list[Any] = []
        for images, gradient in run.gradients(numbered(12, []), depth=4):
            answers.append(images)
            assert gradient.shape == images.shape
            if len(answers) == 5:
                first.kill()
                serve(folder, grpc_port=first.grpc_port)
        assert len(answers) == 12
        for number, images in enumerate(answers):
            assert torch.equal(images, batch(seed=number)[0])
        charged = run.next_step - 1
        assert charged > 12  # the rest of a block was counted as answered
        run.close()
        assert barrier.resume_run(run.run_id).next_step == charged + 1


@pytest.mark.parametrize("depth", [0, 17])
def test_a_depth_beyond_what_a_curator_keeps_is_refused(local: Local, depth: int) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=6)
        with pytest.raises(ValueError, match="depth"):
            next(run.gradients(numbered(3, []), depth=depth))


def test_answers_that_a_trainer_did_not_read_are_free_for_the_next_one(local: Local) -> None:
    first, second, third = (batch(seed=number) for number in range(3))
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=30)
        run.first_gradient([first, second])
        assert run.next_step == 2
        run.hang_up()
        expected = run.first_gradient([second, third])  # sent again after a broken stream
    with local.connect() as barrier:
        again = barrier.resume_run(run.run_id)
        assert again.next_step >= 3  # the third may have arrived, too
        again.go_back(2)
        assert again.first_gradient([second, third]).equal(expected)
        again.first_gradient([third])
        assert again.next_step == 4
        again.close()
        assert barrier.resume_run(run.run_id).next_step == 4


def test_other_images_after_going_back_are_the_next_step(local: Local) -> None:
    with local.connect() as barrier:
        run = barrier.open_run("digits", "dp-sinkhorn", SINKHORN, num_steps=30)
        run.first_gradient([batch(seed=0)])
        run.first_gradient([batch(seed=1)])
        again = barrier.resume_run(run.run_id)
        again.go_back(2)
        again.first_gradient([batch(seed=7)])
        assert again.next_step == 4
        again.close()
        assert barrier.resume_run(run.run_id).next_step == 4


def test_a_training_with_two_steps_on_their_way_survives_its_curator(
    tmp_path: Path, serve: Callable[..., Process]
) -> None:
    folder = digits_folder(tmp_path / "c")
    process = serve(folder)
    out, key = tmp_path / "run", str(credentials(folder, "alice"))
    access = ("--curator", process.target, "--credentials", key, "--out", str(out))
    words = ("--recipe", "dp-sinkhorn-digits", "--steps", "24", "--depth", "2")
    noise = ("--mechanism-noise-multiplier", "6", "--set", "session.retry_for_s=60")
    train = [sys.executable, "-m", "analyst.cli", "train", *access, *words, *noise]
    with subprocess.Popen(train, stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        for line in command.stderr:
            if line.startswith("step "):
                process.kill()
                serve(folder, grpc_port=process.grpc_port)
                break
        rest = command.stderr.read()
    assert command.returncode == 0, rest
    ledger = SqlLedger.open_reader(folder.ledger, utc_now)
    (closed,) = ledger.runs()
    assert (closed.is_open, closed.used) == (False, 24)
    ledger.close()
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    (skipped,) = [line for line in lines if line["kind"] == "skipped"] or [None]
    lost = 0 if skipped is None else skipped["last"] - skipped["first"] + 1
    (last,) = [line for line in lines if line["kind"] == "completed"]
    assert last["num_updates"] == 24 - lost
