"""What a mechanism remembers from step to step: whose it is, and what it does not depend on."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from curator.audit.canaries import Pair
from curator.audit.direction import records_of
from curator.audit.in_process import run_in_process
from curator.audit.tape import OtherSelections, Tape, TapedNoise
from curator.audit.target import Target
from curator.mechanisms.base import StatefulMechanism

State = Mapping[str, Tensor]


def same_whatever_is_drawn(target: Target, pair: Pair, tape: Tape) -> bool | None:
    """Return whether the state is the same with other selections; None where it is not promised.

    Where it is made again from samples alone after a crash, noise is another one too. A critic
    trained on sampled records follows what was sampled, through noise.

    Args:
        target: The mechanism.
        pair: The canary; of its data sets the first one.
        tape: Of the selections that are turned around.
    """
    mechanism = target.open()
    if not isinstance(mechanism, StatefulMechanism) or (
        mechanism.requirements().samples is not None
    ):
        return None
    noise = Tape() if mechanism.durability == "replay" else tape
    first, second = (
        run_in_process(target, pair, records_of(pair, with_extra=False), source).state
        for source in (TapedNoise(tape), OtherSelections(tape, noise))
    )
    return not changed_parts(first, second, 0)


def changed_parts(first: State, second: State, num_parts: int) -> set[int | str]:
    """Return which parts of two states differ, and the names of what belongs to no part.

    Args:
        first: Packed.
        second: Packed, of the same run on other records.
        num_parts: How many networks there are: tensors with so many rows have one for each.
    """
    changed: set[int | str] = set(first.keys() ^ second.keys())
    for name in first.keys() & second.keys():
        one, other = first[name], second[name]
        if one.shape != other.shape:
            changed.add(name)
        elif num_parts and one.shape[:1] == (num_parts,):
            changed |= {k for k in range(num_parts) if not torch.equal(one[k], other[k])}
        elif not torch.equal(one, other):
            changed.add(name)
    return changed
