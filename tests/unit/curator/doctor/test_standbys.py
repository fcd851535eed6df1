"""What the database's settings mean for charges that were confirmed."""

from __future__ import annotations

import pytest

from curator.doctor.finding import State
from curator.doctor.standbys import judged
from curator.ledger.postgres import Replication


@pytest.mark.parametrize(
    ("names", "commit", "standbys", "synchronous", "state", "words"),
    [
        ("", "on", 0, 0, State.OK, "standbys 0"),
        ("", "on", 1, 0, State.ATTENTION, "wait for no standby"),
        ("ANY 1 (a, b)", "on", 2, 1, State.OK, "'ANY 1 (a, b)'"),
        ("ANY 1 (a, b)", "local", 2, 1, State.ATTENTION, "wait for no standby"),
        ("a", "on", 0, 0, State.ATTENTION, "none of those named"),
        ("a", "on", 1, None, State.OK, "synchronous_commit on"),
    ],
)
def test_a_failover_that_may_forget_needs_attention(
    names: str, commit: str, standbys: int, synchronous: int | None, state: State, words: str
) -> None:
    finding = judged(
        Replication(
            version="15.4",
            synchronous_commit=commit,
            synchronous_standby_names=names,
            num_standbys=standbys,
            num_synchronous=synchronous,
        )
    )
    assert finding.state is state
    assert words in finding.words
    assert bool(finding.next_step) == (state is State.ATTENTION)
