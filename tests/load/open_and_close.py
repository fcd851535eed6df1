"""Runs that one caller opens and closes without end, on several connections.

Usage: python -m tests.load.open_and_close
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Final

from analyst.errors import AnalystError
from tests.load.harness import CHEAP_SINKHORN, Target, main, together

_AT_ONCE: Final = 8


def _turn(target: Target, name: str, until: float, told: Counter[str]) -> None:
    with target.connect(name) as barrier:
        while time.monotonic() < until:
            try:
                run = barrier.open_run("digits", "dp-sinkhorn", CHEAP_SINKHORN, num_steps=10)
                run.close()
                told["turns"] += 1
            except AnalystError as error:
                told[type(error).__name__] += 1


def attack(target: Target, until: float) -> dict[str, int]:
    return together(_turn, target, target.attackers[:1] * _AT_ONCE, until)


if __name__ == "__main__":
    sys.exit(main(attack, __doc__))
