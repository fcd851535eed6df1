"""What a run may ask: within what the steward declared, and within the sizes of this curator.

All of it follows from public numbers. A run whose steps would all be refused, or for which there is
no room, is not opened.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context
from typing import Final

from curator.errors import CuratorError, MalformedRequest, PolicyRefused, TooMuchState
from curator.ledger.ledger import RunState
from curator.mechanisms.base import Requirements, ServedMechanism
from curator.mechanisms.catalogue import read_specification
from curator.mechanisms.specification import Specification
from curator.privacy.batches import ImageSpace
from curator.privacy.event_numbers import SamplingRate
from curator.privacy.facts import DatasetFacts
from curator.service.limits import ENVELOPE_BYTES, Limits
from curator.service.runs import Runs
from curator.state.on_disk import STATE_EVERY

_DIGITS: Final = Context(prec=6, rounding=ROUND_FLOOR)


class BeyondDeclaration(PolicyRefused):
    """A run is too large for a data set as it was declared: other numbers help, no steward does."""

    public_message = "This does not fit what the data set was declared for; nothing was charged."
    remedy = (
        "Change the key that the detail names, with --set or in the recipe's file. What was "
        "declared never changes, so no steward can allow more; 'analyst budget' (DescribeDataset) "
        "shows it."
    )


def check_policy(mechanism: ServedMechanism, facts: DatasetFacts) -> None:
    """Refuse parameters beyond what the steward declared.

    Args:
        mechanism: Built from the request.
        facts: The data set's declarations.

    Raises:
        BeyondDeclaration: If the sampling rate or the capacity is above the declared one, or a
            bound that the cost relies on is below it.
    """
    needed = mechanism.requirements()
    _check_samples(needed, facts)
    _check_bounds(needed, facts)


def _check_samples(needed: Requirements, facts: DatasetFacts) -> None:
    """Refuse a larger part of the records than the steward lets anybody sample.

    Raises:
        BeyondDeclaration: If the sampling rate or the capacity is above the declared one.
    """
    samples = needed.samples
    if samples is None:
        return
    if samples.rate.exact > SamplingRate.at_least(facts.sampling_rate).exact:
        asked = float(samples.rate)
        msg = (
            f"mechanism.sampling_rate may be at most {facts.sampling_rate:.6g} on this data set, "
            f"and is {asked:.6g}: mechanism.expected_batch_size may be at most {_batch(facts)} of "
            f"{facts.nominal_size:,}, and is {asked * facts.nominal_size:.6g}"
        )
        raise BeyondDeclaration(msg)
    if samples.capacity > facts.capacity:
        msg = (
            f"mechanism.capacity may be at most {facts.capacity} on this data set, and is "
            f"{samples.capacity}; a recipe without this key asks for {facts.capacity}"
        )
        raise BeyondDeclaration(msg)


def _batch(facts: DatasetFacts) -> str:
    """Return the largest expected batch that may be asked, to six digits, as a recipe has it."""
    most = SamplingRate.at_least(facts.sampling_rate).exact
    batch = facts.sampling_rate * facts.nominal_size
    below = _DIGITS.create_decimal_from_float(batch)
    for nearest in (float(f"{batch:.6g}"), float(below)):
        if SamplingRate.at_least(min(1.0, nearest / facts.nominal_size)).exact <= most:
            return f"{nearest:.6g}"
    return f"{float(_DIGITS.next_minus(below)):.6g}"  # the division was rounded up


def _check_bounds(needed: Requirements, facts: DatasetFacts) -> None:
    """Refuse bounds that the data set may exceed: its cost would be under-counted.

    Raises:
        BeyondDeclaration: If the number of units, or of records of one unit, may be larger.
    """
    if needed.max_size is not None and needed.max_size < facts.max_size:
        msg = _too_low("max_size", needed.max_size, facts.max_size)
        raise BeyondDeclaration(msg)
    most = facts.max_records_per_group or 1
    if needed.max_records_per_unit is not None and needed.max_records_per_unit < most:
        msg = _too_low("max_records_per_unit", needed.max_records_per_unit, most)
        raise BeyondDeclaration(msg)


def _too_low(key: str, asked: int, least: int) -> str:
    return f"mechanism.{key} must be at least {least} on this data set, and is {asked}"


_MIB: Final = 1 << 20
_SHARES: Final = 2  # one analyst may have 1 / 2 of the room


def check_step_size(limits: Limits, mechanism: ServedMechanism) -> None:
    """Refuse a run whose steps would all be refused for their size, or never be answered.

    Raises:
        MalformedRequest: If a step has too many rows, or too many bytes, or its answer has.
    """
    rows = mechanism.rows_per_step
    if rows is None:
        return
    needed, room = mechanism.requirements(), limits.max_message_bytes - ENVELOPE_BYTES
    asked = limits.most_rows(needed.numbers_per_row, needed.weight_bytes)
    in_answer = needed.numbers_per_row if needed.answer_numbers is None else 1  # for a row
    answered = room // (needed.answer_bytes * in_answer)
    most = min(asked, answered)
    if rows > most:
        limit = "max_samples" if most == limits.max_samples else "max_message_mib"
        msg = (
            f"a step of {rows} rows is too large here: at most {most} fit; send fewer (a recipe's "
            "mechanism.num_samples), or shorter ones (mechanism.num_features, where it has that), "
            f"or ask the steward to raise limits.{limit}"
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
