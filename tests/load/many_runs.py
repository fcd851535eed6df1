"""Runs that one caller opens until it is refused, on as many connections as it may have.

Usage: python -m tests.load.many_runs
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Final

from analyst.errors import AnalystError
from tests.load.harness import CHEAP_SINKHORN, Target, main, together

_AT_ONCE: Final = 8


def _open(target: Target, name: str, until: float, told: Counter[str]) -> None:
    with target.connect(name) as barrier:
        while time.monotonic() < until:
            try:
                barrier.open_run("digits", "dp-sinkhorn", CHEAP_SINKHORN, num_steps=10)
                told["opened"] += 1
            except AnalystError as error:
                told[type(error).__name__] += 1


def attack(target: Target, until: float) -> dict[str, int]:
    return together(_open, target, target.attackers[:1] * _AT_ONCE, until)


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
