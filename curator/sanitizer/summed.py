"""Release class-wise sums of bounded rows, one row per private record.

A sum over the data set has no bound as a whole, so what each unit (a record, or a group of them)
adds to all classes together is bounded, truncated and certified alone, before units are added as
integers. Float64 arithmetic on a unit is elementwise and in the order of its own records, so no bit
of it depends on which other units share the batch. All of it happens on the device that the rows
come on: integers are exact on each.

Shape legend: M rows of a batch, U units in it, P pairs of a unit and a class, R features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from curator.privacy.batches import RecordBatch
from curator.privacy.noise import NoiseSource
from curator.privacy.parts import values_at_once
from curator.privacy.private import Private, Sealed
from curator.privacy.release import LatticeBlock, Release
from curator.sanitizer.lattice import lattice_radius, truncate

FeatureRows = Callable[[Tensor], Tensor]

_MAX_FEATURES = 1 << 17
_MARGIN = 1 - 2.0**-30  # keeps float64 rounding inside the ball; the integer check decides


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class KeptRows(Sealed):
    """What feature rows are made of, where it is not levels.

    `kept` is what was made before of the records of each batch, row by row, each a function of its
    own record alone; None for their levels. `rows_of` maps it to feature rows. `together` is
    whether those of all classes are summed into one row.
    """

    rows_of: FeatureRows
    kept: Sequence[Tensor] | None = None
    together: bool = False


def release_class_sums(
    batches: Iterable[Private[RecordBatch]],
    feature_rows: FeatureRows | KeptRows,
    *,
    num_features: int,
    num_classes: int,
    noise_multiplier: float,
    noise: NoiseSource,
) -> Release:
    """Return the noised sums, over the records of each class, of their feature rows.

    A record whose row cannot be computed, is not finite, or exceeds norm 1 contributes zero. The
    rows of a unit with several records, taken as one vector over all classes, are scaled to norm 1
    if they exceed it.

    Args:
        batches: Every record once, in batches of one padded shape; all of a unit in one batch.
        feature_rows: Maps levels (M, D) to float64 rows (M, num_features); each row must be a
            function of its own record alone, bit for bit, and have norm at most 1. Or what maps
            rows that were made before.
        num_features: Width of a row.
        num_classes: Public number of classes.
        noise_multiplier: Noise standard deviation over the sensitivity 1.
        noise: Secret randomness.

    Returns:
        A release of one lattice block of shape (num_classes, num_features), grid 1 / radius; of one
        row where all classes are summed.

    Raises:
        ValueError: If `num_features` or `noise_multiplier` is out of range.

    Privacy:
        Adding or removing one unit changes the sums by one certified vector, so the sensitivity is
        1 under add-or-remove-one-unit. Proof: sanitizer.md, theorem 2.
    """
    if not 1 <= num_features <= _MAX_FEATURES:
        msg = f"num_features must be in [1, {_MAX_FEATURES}]"
        raise ValueError(msg)
    radius = lattice_radius(noise_multiplier, sensitivity_in_radii=1)
    made = KeptRows(rows_of=feature_rows) if callable(feature_rows) else feature_rows
    num_sums = 1 if made.together else num_classes
    sums = torch.zeros((num_sums, num_features), dtype=torch.int64)
    for number, sealed in enumerate(batches):
        batch = sealed.unseal()
        given = batch.levels_MD if made.kept is None else made.kept[number]
        rows = _certified_rows(given, made.rows_of, num_features, radius)
        labels, units = batch.labels_M, batch.units_M
        known = batch.mask_M & (units >= 0) & (labels >= 0) & (labels < num_classes)
        places = torch.zeros_like(labels) if made.together else labels
        # other rows become units of their own that add nothing, so that as much work is done
        apart = torch.arange(len(units)) + len(units)
        keys = torch.where(known, units * num_sums + places, apart * num_sums)
        rows *= known.to(rows).unsqueeze(1)
        sums = sums.to(rows.device)
        _add_units(sums, rows, keys.to(rows.device), radius)
    sums = sums.to("cpu")
    drawn = noise.discrete_gaussian(sums.numel()).reshape(sums.shape)
    return Release(blocks=(LatticeBlock(integers=sums + drawn, grid=1.0 / radius),))


def _add_units(sums_KR: Tensor, rows_MR: Tensor, keys_M: Tensor, radius: int) -> None:
    """Add each unit's certified integer vector to the sums.

    Args:
        sums_KR: int64 sums, changed in place.
        rows_MR: float64 rows whose truncations have norm at most `radius`.
        keys_M: unit * K + class of each row; a unit's rows in stored order.
        radius: Bound on a unit's vector.
    """
    num_classes = sums_KR.shape[0]
    pairs_P, pair_of_M = torch.unique(keys_M, return_inverse=True)  # sorted by unit, then class
    _, unit_of_P = torch.unique(pairs_P // num_classes, return_inverse=True)
    num_units = int(unit_of_P.max()) + 1 if len(unit_of_P) else 0
    values_PR = _sums_in_order(rows_MR, pair_of_M, len(pairs_P))
    parts = _parts(values_PR)
    squares_P = [
        _squared_integers(_lattice_rows(values_PR[part], radius), radius) for part in parts
    ]
    fits_U = _certified_units(torch.cat(squares_P), unit_of_P, num_units, radius)
    norms_P1 = torch.cat([_squared_norms(values_PR[part]) for part in parts])
    squares_U = _sums_in_order(norms_P1, unit_of_P, num_units)[:, 0]
    scale_U = torch.where(fits_U, torch.ones_like(squares_U), _MARGIN / squares_U.sqrt())
    scale_P1 = scale_U[unit_of_P].unsqueeze(1)
    vectors_PR = torch.empty_like(values_PR, dtype=torch.int64)
    for index, part in enumerate(parts):
        vectors_PR[part] = _lattice_rows(values_PR[part] * scale_P1[part], radius)
        squares_P[index] = _squared_integers(vectors_PR[part], radius)
    certified_U = _certified_units(torch.cat(squares_P), unit_of_P, num_units, radius)
    certified_P1 = certified_U[unit_of_P].to(torch.int64).unsqueeze(1)
    classes_P = pairs_P % num_classes
    for part in parts:
        sums_KR.index_add_(0, classes_P[part], vectors_PR[part] * certified_P1[part])


def _parts(rows: Tensor) -> list[slice]:
    """Return slices of rows; one at least."""
    size = max(1, values_at_once(rows.device) // rows.shape[1])
    return [slice(start, start + size) for start in range(0, max(1, len(rows)), size)]


def _sums_in_order(rows: Tensor, keys: Tensor, num_keys: int) -> Tensor:
    """Add float64 rows of equal key one after the other, in their order, elementwise.

    Args:
        rows: (M, R).
        keys: (M), in [0, num_keys).
        num_keys: Rows of the result.

    Returns:
        (num_keys, R); row k has the bits that the rows of key k alone would give it.
    """
    sums = rows.new_zeros((num_keys, rows.shape[1]))
    order = torch.argsort(keys, stable=True)
    ordered = keys[order]
    places = torch.arange(len(keys), device=keys.device)
    rank = places - torch.searchsorted(ordered, ordered)
    for turn in range(int(rank.max()) + 1 if len(rank) else 0):
        chosen = order[rank == turn]  # at most one row of each key
        sums.index_add_(0, keys[chosen], rows[chosen])
    return sums


def _squared_norms(rows: Tensor) -> Tensor:
    """Return the squared norm of each row, as (P, 1), added by halves so that its bits are its own.

    A library's reduction may order its additions by a row's place in memory.
    """
    squares, width = rows.square(), rows.shape[1]
    while width > 1:
        half = (width + 1) // 2
        squares[:, : width - half] += squares[:, half:width]
        width = half
    return squares[:, :1]


def _certified_units(squares_P: Tensor, unit_of_P: Tensor, num_units: int, radius: int) -> Tensor:
    """Return, for each unit, whether its integer vector over all classes has norm <= radius.

    No sum overflows int64: 2^17 squares are below 2^63 for one pair (see `_squared_integers`), and
    the pairs of a unit, fewer than 2^16, are cut to radius^2 + 1 < 2^46 before they are added.
    """
    bounded_P = squares_P.clamp(max=radius**2 + 1)
    totals_U = bounded_P.new_zeros(num_units).index_add_(0, unit_of_P, bounded_P)
    return totals_U <= radius**2


def _squared_integers(rows: Tensor, radius: int) -> Tensor:
    """Return exact squared norms; a row with a coordinate above the radius is above it too."""
    bounded = rows.clamp(-radius - 1, radius + 1)  # 2^17 squares of less than 2^46 fit int64
    return bounded.square_().sum(dim=1)


def _certified_rows(
    levels_MD: Tensor, feature_rows: FeatureRows, num_features: int, radius: int
) -> Tensor:
    """Return float64 rows, each truncated to norm at most `radius`; a row that fails is zero."""
    shape = (levels_MD.shape[0], num_features)
    try:
        rows = _shaped(feature_rows(levels_MD), shape)
    except Exception:  # noqa: BLE001 - one record must not decide the fate of its companions
        rows = torch.cat([_lone_row(levels, feature_rows, num_features) for levels in levels_MD])
    result = torch.empty(shape, dtype=torch.float64, device=rows.device)
    for part in _parts(result):
        bounded = _bounded(rows[part])
        certified = _squared_integers(_lattice_rows(bounded, radius), radius) <= radius**2
        torch.mul(bounded, certified.to(bounded.dtype).unsqueeze(1), out=result[part])
    return result


def _lone_row(levels_D: Tensor, feature_rows: FeatureRows, width: int) -> Tensor:
    """Return one record's row, or zeros when it cannot be computed."""
    try:
        return _shaped(feature_rows(levels_D.unsqueeze(0)), (1, width)).to("cpu")
    except Exception:  # noqa: BLE001 - the record contributes zero
        return torch.zeros((1, width), dtype=torch.float64)


def _shaped(rows: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return rows in float64.

    Raises:
        ValueError: If the rows have another shape.
    """
    if rows.shape != shape:
        msg = "feature rows have the wrong shape"
        raise ValueError(msg)
    return rows.detach().to(torch.float64)


def _bounded(rows: Tensor) -> Tensor:
    """Return finite rows; rows that are not become zero."""
    finite = (rows * 0).sum(dim=1, keepdim=True) == 0  # an infinity makes it not a number
    return torch.where(finite, rows, torch.zeros_like(rows)).clamp_(-2.0, 2.0)


def _lattice_rows(rows: Tensor, radius: int) -> Tensor:
    """Return rows of moderate size, truncated to the lattice."""
    return truncate(rows, 1.0 / radius)
