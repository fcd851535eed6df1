"""What the analyst's tests share: a small recipe, a silent screen, a stop that never sleeps."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from analyst.recipes import Recipe, load_recipe
from analyst.training.progress import Progress

SMALL: dict[str, Any] = {
    "mechanism.num_samples": 20,
    "mechanism.num_debias": 4,
    "generator.width": 16,
    "optimizer.lr": 1e-2,
    "training.steps": 12,
    "session.checkpoint_every": 4,
    "session.sample_every": 100,
    "session.metrics_every": 1,
    "session.retry_for_s": 10.0,
}


class FakeStop:
    """Counts sleeps; asks after `after` checks."""

    def __init__(self, after: int | None = None) -> None:
        self.after = after
        self.checks = 0
        self.slept: list[float] = []
        self.on_wait: Callable[[float], None] = lambda seconds: None

    @property
    def asked(self) -> bool:
        self.checks += 1
        return self.after is not None and self.checks > self.after

    def wait(self, seconds: float) -> bool:
        self.slept.append(seconds)
        self.on_wait(seconds)
        return False


@pytest.fixture
def small_recipe() -> Callable[..., Recipe]:
    def make(**changes: Any) -> Recipe:
        overrides = {key.replace("__", "."): value for key, value in changes.items()}
        return load_recipe("dp-sinkhorn-digits", {**SMALL, **overrides})

    return make


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def progress(screen: io.StringIO) -> Progress:
    return Progress(screen)


@pytest.fixture
def make_stop() -> Callable[..., FakeStop]:
    return FakeStop
