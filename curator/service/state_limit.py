"""Room for what all open runs keep: refused at opening, by public numbers alone."""

from __future__ import annotations

from curator.errors import CuratorError, TooMuchState
from curator.ledger.ledger import RunState
from curator.mechanisms.catalogue import read_specification
from curator.mechanisms.specification import Specification
from curator.privacy.records import ImageSpace
from curator.service.context import Context
from curator.state.on_disk import STATE_EVERY

_MIB = 1 << 20
_SHARES = 2  # one analyst may have 1 / 2 of the room


def check_state(context: Context, analyst: str, spec: Specification, space: ImageSpace) -> None:
    """Check that there is room for what one more run keeps beside all open ones.

    The runs of one analyst have at most half of the room, so that nobody can refuse all others.

    Sizes follow from specifications and public facts. A run counts from its opening, whether it had
    a step or not, whoever opened it and whichever process holds it.

    Args:
        context: The collaborators; its lock of runs is held.
        analyst: Who asks.
        spec: Of the run that is to be opened.
        space: Public image space of its data set.

    Raises:
        TooMuchState: If there is none.
    """
    wanted = run_bytes(spec, space)
    if not wanted:
        return
    held = [(run.analyst, _bytes_of(context, run)) for run in context.ledger.open_runs()]
    mine = sum(size for owner, size in held if owner == analyst)
    share = context.max_state_bytes // _SHARES
    if mine + wanted > share:
        msg = (
            f"this run would need {_mib(wanted)} MiB and your open runs have {_mib(mine)} MiB; "
            f"those of one analyst may have {share / _MIB:g} MiB together"
        )
        raise TooMuchState(msg)
    if sum(size for _, size in held) + wanted > context.max_state_bytes:
        msg = (
            f"this run would need {_mib(wanted)} MiB; all open runs of all analysts together may "
            f"have {context.max_state_bytes // _MIB} MiB"
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


def _bytes_of(context: Context, run: RunState) -> int:
    """Return the bytes of a run of the ledger; its mechanism is not made for that."""
    try:
        space = context.served(run.dataset).facts.space
        return run_bytes(read_specification(run.mechanism, run.parameters_json), space)
    except CuratorError:  # of an earlier version, or not served here: nothing will ever hold it
        return 0
