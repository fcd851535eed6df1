"""Steps on their way together: in the ledger's order, each charged once, whatever breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.e2e.conftest import OVER_BOTH_WIRES, SINKHORN, Local, Process, batch, digits_folder

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
