"""How large a step may be, and how much all open runs may keep: by public numbers alone.

A run whose steps would all be refused, or for which there is no room, is not opened.
"""

from __future__ import annotations

from typing import Final

from curator.errors import CuratorError, MalformedRequest, TooMuchState
from curator.ledger.ledger import RunState
from curator.mechanisms.base import ServedMechanism
from curator.mechanisms.catalogue import read_specification
from curator.mechanisms.specification import Specification
from curator.privacy.records import ImageSpace
from curator.service.limits import Limits
from curator.service.runs import Runs
from curator.state.on_disk import STATE_EVERY

_ENVELOPE_BYTES: Final = 4096  # of a request, around its numbers
_MIB: Final = 1 << 20
_SHARES: Final = 2  # one analyst may have 1 / 2 of the room


def check_step_size(limits: Limits, mechanism: ServedMechanism) -> None:
    """Refuse a run whose steps would all be refused for their size.

    Raises:
        MalformedRequest: If a step has too many rows, or too many bytes.
    """
    rows = mechanism.rows_per_step
    if rows is None:
        return
    bytes_of_row = 4 * mechanism.requirements().numbers_per_row + 8
    fitting = (limits.max_message_bytes - _ENVELOPE_BYTES) // bytes_of_row
    most = min(limits.max_samples, fitting)
    if rows > most:
        limit = "max_samples" if most == limits.max_samples else "max_message_mib"
        msg = (
            f"a step of {rows} rows is too large here: at most {most} fit; send fewer (a recipe's "
            f"mechanism.num_samples), or ask the steward to raise limits.{limit}"
        )
        raise MalformedRequest(msg)


def check_state(
    runs: Runs, limits: Limits, analyst: str, spec: Specification, space: ImageSpace
) -> None:
    """Check that there is room for what one more run keeps beside all open ones.

    The runs of one analyst have at most half of the room, so that nobody can refuse all others.

    Sizes follow from specifications and public facts. A run counts from its opening, whether it had
    a step or not, whoever opened it and whichever process holds it.

    Args:
        runs: Of this process; their lock is held.
        limits: With the room.
        analyst: Who asks.
        spec: Of the run that is to be opened.
        space: Public image space of its data set.

    Raises:
        TooMuchState: If there is none.
    """
    wanted = run_bytes(spec, space)
    if not wanted:
        return
    held = [(run.analyst, _bytes_of(runs, run)) for run in runs.ledger.open_runs()]
    mine = sum(size for owner, size in held if owner == analyst)
    share = limits.max_state_bytes // _SHARES
    if mine + wanted > share:
        msg = (
            f"this run would need {_mib(wanted)} MiB and your open runs have {_mib(mine)} MiB; "
            f"those of one analyst may have {share / _MIB:g} MiB together"
        )
        raise TooMuchState(msg)
    if sum(size for _, size in held) + wanted > limits.max_state_bytes:
        msg = (
            f"this run would need {_mib(wanted)} MiB; all open runs of all analysts together may "
            f"have {limits.max_state_bytes // _MIB} MiB"
        )
        raise TooMuchState(msg)


def run_bytes(spec: Specification, space: ImageSpace) -> int:
    """Return the bytes that a run keeps in memory, with those of its journal on the disk, at most.

    Args:
        spec: Of the run.
        space: Public image space of its data set.
    """
    return spec.kept_bytes(space) + STATE_EVERY * spec.journal_bytes(space)


def _mib(size: int) -> int:
    return -(-size // _MIB)


def _bytes_of(runs: Runs, run: RunState) -> int:
    """Return the bytes of a run of the ledger; its mechanism is not made for that."""
    try:
        space = runs.datasets.facts(run.dataset).space
        return run_bytes(read_specification(run.mechanism, run.parameters_json), space)
    except CuratorError:  # of an earlier version, or not served here: nothing will ever hold it
        return 0
