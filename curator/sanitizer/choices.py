"""Release how many records chose each option, every record having one choice or none.

A record's choice is read by comparing integers, so it adds one to one count whatever it says, and
nothing has to be clipped. Of a unit with several records each counts, as far as a public bound; one
that has more adds nothing. Counts are scaled to the fine lattice of `averaged.py` and noised there
as integers. Voters of `votes.py` are of a public number and answer many questions; of records not
even the number is public.

Shape legend: M rows of a batch, m of them at a time, O options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from curator.privacy.chosen import chosen
from curator.privacy.noise import NoiseSource
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.averaged import fine_noise, fine_radius

MAX_OPTIONS: Final = 1 << 16
_MAX_ENTRIES: Final = 1 << 22  # of a table of choices: rows at a time
_MAX_ROWS: Final = 1 << 32  # counts of this many, scaled by less than 2^30, fit int64

SILENCE: Final = -1

Choices = tuple[Tensor, Tensor]
"""int64 (M): the option that each row chooses, and its unit, -1 for none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceBounds:
    """How far one unit may move the counts, and the noise that hides it.

    Attributes:
        num_options: Public number O.
        records_per_unit: Public bound on the records of a unit: the sensitivity, in records.
        noise_multiplier: Noise standard deviation over `records_per_unit`.
    """

    num_options: int
    records_per_unit: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: If one is out of range, or no lattice point is left for a record.
        """
        if not 1 <= self.num_options <= MAX_OPTIONS:
            msg = f"there may be 1 to {MAX_OPTIONS} options"
            raise ValueError(msg)
        if self.records_per_unit < 1 or self.scale < 1:
            msg = "noise_multiplier is too large for the lattice, for units of so many records"
            raise ValueError(msg)

    @property
    def scale(self) -> int:
        """Lattice points of one record: s with FINE_STD >= z m s, in exact integers."""
        return 2 * fine_radius(self.noise_multiplier) // self.records_per_unit


def choices_of(choose: Callable[..., Tensor], rows: Sequence[Tensor]) -> Tensor:
    """Return what each record chooses; one whose choice cannot be computed is silent.

    Args:
        choose: Maps tensors whose first axis is M to int64 options (M). Each must be a function of
            its own record alone, bit for bit.
        rows: What is known of the records: (M, ...) each.

    Returns:
        int64 (M), on the processor.

    Privacy:
        Row i is a function of record i alone, whatever its companions do.
    """
    num_rows = len(rows[0])
    try:
        return _checked(choose(*rows), num_rows)
    except Exception:  # noqa: BLE001 - one record must not decide the fate of its companions
        lone = [_lone_choice(choose, [one[i : i + 1] for one in rows]) for i in range(num_rows)]
        return torch.cat(lone)


def _lone_choice(choose: Callable[..., Tensor], rows: Sequence[Tensor]) -> Tensor:
    try:
        return _checked(choose(*rows), 1)
    except Exception:  # noqa: BLE001 - the record is silent
        return torch.full((1,), SILENCE, dtype=torch.int64)


def _checked(choices_M: Tensor, num_rows: int) -> Tensor:
    """Return choices on the processor.

    Raises:
        ValueError: If they have another shape or type.
    """
    if choices_M.shape != (num_rows,) or choices_M.dtype != torch.int64:
        msg = "choices have the wrong shape or type"
        raise ValueError(msg)
    return choices_M.cpu()


def release_choices(
    compute: Callable[[], Iterable[Choices]], *, bounds: ChoiceBounds, noise: NoiseSource
) -> Release:
    """Return the noised number of records that chose each option.

    A number that is no option is a silence. What raises, or has another shape, makes all counts
    zero, noised like any others.

    Args:
        compute: Yields the choices of every record once, all of a unit together; everything private
            is inside. The choice of a record must be a function of that record and of public values
            alone, and nothing may raise because of a record.
        bounds: Options, records of a unit, and noise.
        noise: Secret randomness.

    Returns:
        A release of one lattice block (O,), in records.

    Privacy:
        A unit of m records or fewer adds m to the counts together, or less, so the sensitivity is m
        under add-or-remove-one-unit, in L1 and so in L2. Proof: sanitizer.md, part 5.

    References:
        [lin:24], algorithm 2.
    """
    counts_O = _counts(compute, bounds)
    drawn_O = fine_noise(noise, bounds.num_options)
    integers = counts_O * bounds.scale + drawn_O
    return Release(blocks=(LatticeBlock(integers=integers, grid=1 / bounds.scale),))


def _counts(compute: Callable[[], Iterable[Choices]], bounds: ChoiceBounds) -> Tensor:
    """Return the counts (O,), or zeros; never raises."""
    zeros = torch.zeros(bounds.num_options, dtype=torch.int64)
    try:
        counts, num_rows = zeros.clone(), 0
        for choices_M, units_M in compute():
            num_rows += len(units_M)
            if not _are_choices(choices_M, units_M) or num_rows > _MAX_ROWS:
                return zeros
            counts += _tally(choices_M.cpu(), units_M.cpu(), bounds)
    except Exception:  # noqa: BLE001 - an abort would be an answer that is not noised
        return zeros
    return counts


def _are_choices(choices_M: Tensor, units_M: Tensor) -> bool:
    of_one_shape = choices_M.dim() == 1 and choices_M.shape == units_M.shape
    return of_one_shape and choices_M.dtype == units_M.dtype == torch.int64


def _tally(choices_M: Tensor, units_M: Tensor, bounds: ChoiceBounds) -> Tensor:
    """Return how many rows chose each option: (O,), as much work for any choices."""
    counted_M = chosen(_fits(units_M, bounds.records_per_unit), choices_M, SILENCE)
    options_O = torch.arange(bounds.num_options)
    counts_O = torch.zeros(bounds.num_options, dtype=torch.int64)
    for some_m in torch.split(counted_M, max(1, _MAX_ENTRIES // bounds.num_options)):
        counts_O += (some_m.unsqueeze(1) == options_O).sum(dim=0)
    return counts_O


def _fits(units_M: Tensor, records_per_unit: int) -> Tensor:
    """Return whether each row is of a unit, and that unit within its bound."""
    num_rows = len(units_M)
    known_M = (units_M >= 0) & (units_M < num_rows)
    places_M = chosen(known_M, units_M, num_rows)  # all others share a place of their own
    sizes = torch.bincount(places_M, minlength=num_rows + 1)
    return known_M & (sizes[places_M] <= records_per_unit)
