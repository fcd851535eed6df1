"""Which checks notice a mutant: both ways, so that no check fails for the real code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from curator.mechanisms import shard_networks, shards

Detector = Callable[[], None]
Mutant = Callable[[pytest.MonkeyPatch], None]


def both_ways(
    detectors: Sequence[Detector],
    mutants: Sequence[Mutant],
    fault: type[Exception] = AssertionError,
) -> tuple[Any, Any]:
    """Return two tests: every check passes for the real code, and every mutant fails one of them.

    Args:
        detectors: Checks, quick ones first: one that notices a mutant is enough.
        mutants: Each plants one fault; anew for each check.
        fault: How checks fail, beside assertions.
    """

    @pytest.mark.parametrize("detector", detectors, ids=lambda one: one.__name__)
    def real_code_passes(detector: Detector) -> None:
        detector()

    @pytest.mark.parametrize("mutant", mutants, ids=lambda one: one.__name__)
    def every_mutant_is_caught(monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
        for detector in detectors:
            with monkeypatch.context() as inner:
                mutant(inner)
                try:
                    detector()
                except (AssertionError, fault):
                    return
        pytest.fail("no check noticed it")

    return real_code_passes, every_mutant_is_caught


def shards_that_overlap(patch: pytest.MonkeyPatch) -> None:
    """The second shard of whatever has networks of shards holds what the first one does."""
    real = shards.gather_shards

    def overlapping(*arguments: Any) -> Any:
        made = real(*arguments)
        made.levels_KPD[1], made.labels_KP[1] = made.levels_KPD[0], made.labels_KP[0]
        made.counts_K[1] = made.counts_K[0]
        return made

    patch.setattr(shard_networks, "gather_shards", overlapping)
