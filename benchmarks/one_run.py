"""What one whole run shows of epsilon, by many canaries: `curator audit --one-run`, as rows.

Prints a JSON row for each mechanism and each planted fault. A row with `planted` is of a curator
that adds a quarter of its noise, which no curator's configuration can make it do. Coins and noise
are the operating system's, so no seed makes a run again; the simulation beside it has seed 0.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
from typing import Any, Final, final

import torch
from torch import Tensor

from audit import ONE_RUN_TARGETS
from audit.one_run import ATTACKS, OneRunResult, OneRunRules, audit_one_run
from benchmarks.papers.rows import processor
from curator.clock import utc_now
from curator.sanitizer.entropy import OsEntropy

_FAULT: Final = 4


@final
class LessNoise:
    """The production source with a quarter of its noise."""

    def __init__(self) -> None:
        """Begin with the operating system's randomness."""
        self._source = OsEntropy()

    def discrete_gaussian(self, num_values: int) -> Tensor:
        """Return draws of a quarter of the standard deviation."""
        draws = self._source.discrete_gaussian(num_values)
        return torch.div(draws, _FAULT, rounding_mode="trunc")

    def uniform_words(self, num_words: int) -> Tensor:
        """Return words as they are."""
        return self._source.uniform_words(num_words)


def main(arguments: list[str]) -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mechanism", nargs="+", choices=ONE_RUN_TARGETS, default=ONE_RUN_TARGETS)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--confidence", type=float, default=0.95, help="of each row")
    parser.add_argument("--planted", action="store_true", help="a quarter of the noise, too")
    chosen = parser.parse_args(arguments)
    rules = OneRunRules(epsilon=chosen.epsilon, delta=chosen.delta, error=1 - chosen.confidence)
    for name in chosen.mechanism:
        for planted in (False, True) if chosen.planted else (False,):
            result = audit_one_run(ATTACKS[name](), rules, noise=LessNoise() if planted else None)
            command = shlex.join(["python", "-m", "benchmarks.one_run", *arguments])
            row = _row(result) | {
                "planted": "a quarter of the noise" if planted else None,
                "seed": None,
                "command": command,
                "date": f"{utc_now():%Y-%m-%d}",
                "processor": processor(),
            }
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()


def _row(result: OneRunResult) -> dict[str, Any]:
    """Return what is kept of a result."""
    return {
        "audit": "one run",
        "mechanism": result.mechanism,
        "num_steps": result.num_steps,
        "noise_multiplier": round(result.noise_multiplier, 5),
        "confidence": result.confidence,
        "guesses": [dataclasses.asdict(one) for one in result.guesses],
        "checks": [
            {
                "delta": one.delta,
                "claim": round(one.claim, 4),
                "lower_bound": round(one.lower_bound, 4),
                "expected": round(result.expected.honest[one.delta], 4),
                "expected_of_a_quarter": round(result.expected.faulty[one.delta], 4),
            }
            for one in result.checks
        ],
        "holds": result.holds,
        "why": result.why,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
