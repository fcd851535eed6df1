"""A small adaptation: its recipe as a table, a labelled public file of digits, who watches it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from analyst.training.loop import Update

TABLE: dict[str, dict[str, Any]] = {
    "about": {"title": "a small one", "source": "test"},
    "mechanism": {
        "kind": "dp-swd-features",
        "expected_batch_size": 40,
        "capacity": 96,
        "num_samples": 40,
        "num_projections": 8,
        "architecture": "mlp-features",
        "num_features": 8,
        "clip_norm": 2.0,
        "noise_multiplier": 3.0,
        "max_size": 2000,
        "max_records_per_unit": 1,
    },
    "move": {"kind": "extractor", "weight": 0.1},
    "optimizer": {"lr": 3e-3, "decay": "cosine"},
    "training": {
        "dataset": "digits",
        "num_classes": 10,
        "steps": 6,
        "warm_up": 60,
        "updates_per_step": 3,
        "source_batch": 64,
        "seed": 1,
        "ema_decay": 0.5,
    },
    "session": {"checkpoint_every": 2, "metrics_every": 1, "retry_for_s": 5.0},
}


def table(**changes: Any) -> dict[str, Any]:
    """Return the recipe with changes such as training__steps=3."""
    made = {section: dict(values) for section, values in TABLE.items()}
    for key, value in changes.items():
        section, _, name = key.partition("__")
        made[section][name] = value
    return made


def toml(made: dict[str, Any]) -> str:
    lines = []
    for section, values in made.items():
        lines.append(f"[{section}]")
        lines += [
            f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}"
            for name, value in values.items()
        ]
    return "\n".join(lines) + "\n"


def write_digits(path: Path, count: int = 1200, first: int = 0) -> Path:
    """Write real digits as a labelled public file, larger than the target's 8x8."""
    digits = load_digits()
    chosen = slice(first, first + count)
    levels = np.rint(digits.images[chosen] * (255 / 16)).astype(np.uint8)
    images = levels.repeat(2, axis=1).repeat(2, axis=2)
    np.savez(path, images=images, labels=digits.target[chosen])
    return path


class Watch:
    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.lost: list[tuple[int, int]] = []
        self.waits = 0

    def updated(self, update: Update) -> None:
        self.updates.append(update)

    def skipped(self, first: int, last: int) -> None:
        self.lost.append((first, last))

    def waiting(self, delay: float, left: float) -> None:
        self.waits += 1


class Stop:
    def __init__(self) -> None:
        self.asked = False
        self.stops_when_waiting = False

    def wait(self, seconds: float) -> bool:
        return self.stops_when_waiting


class StopAfter:
    """Asks after so many checks, one an update or a step."""

    def __init__(self, checks: float = float("inf")) -> None:
        self._left = checks

    @property
    def asked(self) -> bool:
        self._left -= 1
        return self._left < 0

    def wait(self, seconds: float) -> bool:
        return False
