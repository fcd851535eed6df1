"""Grids, metrics, progress and averages."""

from __future__ import annotations

import io
import itertools
import json
import re
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from analyst.training import progress as progress_module
from analyst.training.grid import BORDER, make_grid, save_grid, to_pixels
from analyst.training.progress import Position, Progress, describe, format_seconds
from analyst.training.run_files import MetricsFile
from analyst.training.state import Ema


def test_grid_enlarges_and_separates_tiles() -> None:
    pixels = np.zeros((5, 1, 8, 8), dtype=np.uint8)
    pixels[4] = 255
    grid = make_grid(pixels, columns=2)
    pitch = 48 + BORDER
    assert grid.shape == (3 * pitch + BORDER, 2 * pitch + BORDER)
    last = grid[2 * pitch + BORDER : 3 * pitch, BORDER:pitch]
    assert last.shape == (48, 48)
    assert (last == 255).all()
    for edge in range(4):
        rows = grid[edge * pitch : edge * pitch + BORDER] if edge < 4 else grid[:0]
        assert np.unique(rows).tolist() == [96]
    assert np.unique(grid[:, pitch : pitch + BORDER]).tolist() == [96]
    assert np.unique(grid[2 * pitch :, pitch:]).tolist() == [96]  # the missing tile


def test_grid_of_colours_and_large_images_is_a_png(tmp_path: Path) -> None:
    pixels = np.full((2, 3, 64, 32), 7, dtype=np.uint8)
    save_grid(tmp_path / "a" / "grid.png", pixels, columns=2)
    with Image.open(tmp_path / "a" / "grid.png") as image:
        assert image.format == "PNG"
        assert image.size == (2 * (32 + BORDER) + BORDER, 64 + 2 * BORDER)
        assert image.mode == "RGB"


@pytest.mark.parametrize("shape", [(0, 1, 8, 8), (1, 2, 8, 8)])
def test_grid_refuses_what_it_cannot_show(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="grid"):
        make_grid(np.zeros(shape, dtype=np.uint8), columns=1)


def test_pixels_are_rounded_and_clamped() -> None:
    images = torch.tensor([-2.0, -1.0, 0.0, 0.999, 1.0]).reshape(1, 1, 1, 5)
    assert to_pixels(images).ravel().tolist() == [0, 0, 128, 255, 255]


def test_metrics_survive_half_a_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path)
    first.write("update", {"step": 1})
    first.close()
    path.write_bytes(path.read_bytes() + b'{"kind": "upd')
    second = MetricsFile(path)
    second.write("resumed", {"step": 2})
    second.close()
    kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert kinds == ["update", "resumed"]


def _position(step: int) -> Position:
    return Position(step=step, num_steps=400, spent_epsilon=1.25, budget_epsilon=10.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_rewrites_one_line() -> None:
    stream, now = Terminal(), [0.0]
    progress = Progress(stream, clock=lambda: now[0])
    for step in range(1, 5):
        progress.update(_position(step))
        now[0] += 0.06
    progress.say("hello")
    text = stream.getvalue()
    assert text.count("step ") == 3  # at most ten a second, and the last one stays
    assert "\r" in text
    assert text.endswith("hello\n")
    assert max(map(len, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "\n", text).split("\n"))) <= 80


def test_the_rate_of_a_run_is_its_own() -> None:
    """The runs of a chain are told by one progress."""
    now = [0.0]
    progress = Progress(io.StringIO(), clock=lambda: now[0])
    for step, seconds in ((399, 1.0), (400, 1.0), (1, 1.0), (2, 0.25), (3, 0.25)):
        now[0] += seconds
        progress.update(_position(step))
        assert progress.steps_per_s() >= 0
    assert progress.steps_per_s() == 4.0


def test_a_quiet_progress_writes_problems_only() -> None:
    stream = Terminal()
    progress = Progress(stream, quiet=True)
    progress.update(_position(400))
    progress.say("hello")
    assert not stream.getvalue()
    progress.warn("a step was lost")
    assert stream.getvalue() == "a step was lost\n"


class Lines(io.StringIO):
    """A stream that tells when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


def test_what_tells_nothing_of_itself_is_waited_for_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress_module, "_FIRST_WAIT_S", 0.01)
    moments = itertools.chain([100.0, 183.0], itertools.repeat(500.0))
    stream = Lines()
    with Progress(stream, clock=lambda: next(moments)).waiting("the release"):
        assert stream.written.wait(20)
    assert stream.getvalue().startswith("the release: 1:23 so far\n")
    said = stream.getvalue()
    with Progress(stream, quiet=True).waiting("the release"):
        stream.written.clear()
        assert not stream.written.wait(0.05)
    assert stream.getvalue() == said


def test_progress_in_a_log_is_rare_and_the_last_step_is_written() -> None:
    stream, now = io.StringIO(), [0.0]
    progress = Progress(stream, clock=lambda: now[0])
    for step in range(1, 401):
        progress.update(_position(step))
        now[0] += 0.1
    lines = stream.getvalue().splitlines()
    assert len(lines) == 5  # 0, 10, 20 and 30 seconds, and the end
    assert "10.0 steps/s" in lines[-1]


def test_progress_says_all_four_things() -> None:
    line = describe(_position(100), 10.0)
    assert line == "step 100/400   25%  10.0 steps/s  epsilon 1.250 of 10  ETA 0:30"
    mine = replace(_position(100), share_epsilon=4.0)
    assert "epsilon 1.250 of 10 (your share: 4)  ETA" in describe(mine, 10.0)
    assert format_seconds(90_061) == "1d 1:01:01"
    assert format_seconds(3_661) == "1:01:01"


def test_an_update_that_is_owed_is_made_before_anybody_reads() -> None:
    module = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.fill_(0.0)
    ema = Ema(module, decay=0.75)
    for value, average in ((4.0, 1.0), (5.0, 2.0)):
        with torch.no_grad():
            module.weight.fill_(value)
        ema.owe(module)
        assert ema.weights["weight"].item() == average
        assert ema.weights["weight"].item() == average  # and once
    ema.owe(module)
    ema.owe(module)
    assert ema.weights["weight"].item() == 5 - 3 * 0.75**2


def test_ema_follows_and_lends() -> None:
    module = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.fill_(0.0)
    ema = Ema(module, decay=0.75)
    with torch.no_grad():
        module.weight.fill_(4.0)
    ema.update(module)
    with ema.applied_to(module):
        assert module.weight.item() == 1.0
    assert module.weight.item() == 4.0
