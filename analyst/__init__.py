"""The analyst: owns the generator and the optimizer, and trains against a remote curator.

with analyst.connect("curator.example.org:50051", credentials="me.json") as barrier:
    run = barrier.open_run("mnist", "dp-sinkhorn", parameters, num_steps=2000)
    run.backward(images, labels)  # instead of loss.backward()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyst.lazy import lazily

if TYPE_CHECKING:
    from analyst.client import Barrier, Run, connect
    from analyst.errors import AnalystError
    from analyst.tune_process import tune_process
else:
    __getattr__ = lazily(
        __name__,
        {
            "analyst.client": (
                "Barrier",
                "Run",
                "connect",
            ),
            "analyst.errors": ("AnalystError",),
            "analyst.tune_process": ("tune_process",),
        },
    )

__all__ = ["AnalystError", "Barrier", "Run", "connect", "tune_process"]
