"""A curator with another interval of the interpreter's lock, or its noise made on the card.

BENCH_SWITCH_US=100 BENCH_NOISE_ON=cuda python -m benchmarks.tuned serve --dir DIR ...
"""

from __future__ import annotations

import os
import sys

import torch

from curator.cli import main
from curator.process import bootstrap
from curator.sanitizer.entropy import OsEntropy

DEFAULT_SWITCH_US = 5000.0


def _noise() -> OsEntropy:
    return OsEntropy(torch.device(os.environ.get("BENCH_NOISE_ON", "cpu")))


if __name__ == "__main__":
    sys.setswitchinterval(1e-6 * float(os.environ.get("BENCH_SWITCH_US", DEFAULT_SWITCH_US)))
    setattr(bootstrap, "OsEntropy", _noise)  # noqa: B010 - what it imported
    sys.exit(main())
