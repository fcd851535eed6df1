"""The exact scattering in compiled loops; imported only where numba is.

A vector holds one pixel of eight records. A window of 7 x 7 pixels is split by parity: sums or
differences of pixels that mirror each other, along y and across x. Each part of a filter sees one
parity alone, and two angles that mirror each other have the same parts but for a sign, so a quarter
of the products is left.

Sums are multiples of 1/2 below 2^32, so exact in float64 in any order; moduli are integers. Loops
run over all of their arrays with no branch on a value, and no lane meets another one: a record's
coefficients and the time they take depend on no companion.

Shape legend: M records, C channels, H height, W width, S coefficients. Inside all arrays are flat:
maps (H, W, 8), those to be filtered (H + 6, W + 6, 8) with a margin of zeros; innermost loops get
the places of what they read and write, unsigned, so that compilers need not ask for their sign.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

F, Q, U = np.float64, np.int64, np.uint64
LANES = 8
_ANGLES = 8
_MARGIN = 3
_EDGE = _MARGIN * LANES
_CHUNK = 8 * LANES  # of a row at once: what its windows are split into fits the nearest cache
_SPAN = _CHUNK + 2 * _EDGE
_NOTHING = F(0)
_FLOOR = Q(1 << 34)  # 2^-26 in squares of 2^-30
_CUT = Q(26)  # bits of a square that no rounded root shows
_ONE_IN_BITS, _ONE = Q(0x433 << 52), F(2.0**52)  # an integer below 2^52, put behind, is a float

_NUM_COLUMNS = 7  # a window split along y: the middle and three sums, then three differences
# Then across x: even both ways 4 x 4 rows, odd both ways 3 x 3, odd along 3 x 4, odd across 4 x 3.
_EVEN, _ODD, _ALONG, _ACROSS = 0, 16 * _CHUNK, 25 * _CHUNK, 37 * _CHUNK
_NUM_ROWS = 49
# Real parts are even (angles 0 to 4) plus odd both ways (1 to 3), imaginary ones odd along (1 to 4)
# plus odd across (0 to 3). The angle 8 - a has a minus for that plus.
_REAL, _TURN, _IMAGINARY, _OTHER_TURN = 0, 5, 8, 12
_NUM_PARTS = 16


def _compiled(function: Any) -> Any:
    """Compile for float64, keeping the machine code beside this file where that can be written."""
    options: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy", "nogil": True}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # no place for a cache: compile again at each start
        return njit(**options)(function)


def split(filters_277: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the weight of each row of a split window in each part of the filters.

    Args:
        filters_277: Integers: real parts, then imaginary ones, (2 * 8, 7, 7).

    Returns:
        Multiples of 1/2, (16 * 16), zeros where a part has fewer rows than 16.
    """
    weights = np.zeros((_NUM_PARTS, 16), F)
    quadrants, mirrored = filters_277[:, 3:, 3:], filters_277[:, 3:, 3::-1]
    even, odd = (quadrants + mirrored) / 2, (quadrants - mirrored) / 2
    for angle in range(5):
        weights[_REAL + angle] = even[angle].reshape(-1)
    for angle in range(1, 4):
        weights[_TURN + angle - 1, :9] = odd[angle, 1:, 1:].reshape(-1)
    for angle in range(4):
        weights[_IMAGINARY + angle, :12] = even[_ANGLES + angle + 1, 1:].reshape(-1)
        weights[_OTHER_TURN + angle, :12] = odd[_ANGLES + angle, :, 1:].reshape(-1)
    return weights.reshape(-1)


@_compiled
def scatter(pixels_MCHW: Any, weights: Any, shares: Any, start: int, rows_MS: Any) -> None:
    """Write the coefficients of eight records, or what is left.

    Args:
        pixels_MCHW: int64 pixels in [0, 2^16]; sides are multiples of four.
        weights: See `split`.
        shares: int64 weights of the orders 0, 1 and 2.
        start: Index of the first of these records.
        rows_MS: int64, written.
    """
    channels, height, width = pixels_MCHW.shape[1:]
    num_records = min(LANES, len(pixels_MCHW) - start)
    whole_size, size = _map_size(height, width), _map_size(height // 2, width // 2)
    whole, half = np.zeros(channels * whole_size, F), np.zeros(channels * size, F)
    first = np.zeros(_ANGLES * channels * size, F)
    inner = height // 4 * width // 4 * LANES
    out = np.empty(81 * channels * inner, F)
    for c in range(channels):
        for n in range(num_records):
            for y in range(height):
                place = c * whole_size + _place(width, y) + n
                for x in range(width):
                    whole[place + x * LANES] = F(pixels_MCHW[start + n, c, y, x])
        _halve(whole, c * whole_size, height, width, half, c * size, _MARGIN)
        _halve(half, c * size, height // 2, width // 2, out, c * inner, 0)
        p = _ANGLES * c
        _moduli(whole, c * whole_size, height, width, weights, first, p * size, _MARGIN)
        place = (9 * channels + p) * inner
        _moduli(half, c * size, height // 2, width // 2, weights, out, place, 0)
    for p in range(_ANGLES * channels):
        _halve(first, p * size, height // 2, width // 2, out, (channels + p) * inner, 0)
        place = (17 * channels + _ANGLES * p) * inner
        _moduli(first, p * size, height // 2, width // 2, weights, out, place, 0)
    pixels, columns = inner // LANES, out.reshape(-1, LANES)
    for n in range(num_records):
        for s in range(len(columns)):
            order = Q(s >= channels * pixels) + Q(s >= 17 * channels * pixels)
            rows_MS[start + n, s] = Q(columns[s, n]) * shares[order]


@_compiled
def _map_size(height: int, width: int) -> int:
    """Return the length of a map with its margin."""
    return (height + 2 * _MARGIN) * (width + 2 * _MARGIN) * LANES


@_compiled
def _place(width: int, y: int) -> int:
    """Return the place of a row's first pixel in a map with a margin."""
    return (y + _MARGIN) * (width + 2 * _MARGIN) * LANES + _EDGE


@_compiled
def _halve(  # noqa: PLR0913 - arrays and places
    maps: Any, at: int, height: int, width: int, out: Any, to: int, margin: int
) -> None:
    """Write rounded averages of 2 x 2 pixels, with a margin or without."""
    for y in range(height // 2):
        upper, lower = at + _place(width, 2 * y), at + _place(width, 2 * y + 1)
        target = to + ((y + margin) * (width // 2 + 2 * margin) + margin) * LANES
        for _ in range(width // 2):
            first, second, there = U(upper), U(lower), U(target)
            for m in range(U(LANES)):
                left = maps[first + m] + maps[second + m]
                right = maps[first + m + U(LANES)] + maps[second + m + U(LANES)]
                out[there + m] = F((np.int32(left + right) + np.int32(2)) >> np.int32(2))
            upper, lower, target = upper + 2 * LANES, lower + 2 * LANES, target + LANES


@_compiled
def _moduli(  # noqa: PLR0913 - arrays and places
    maps: Any, at: int, height: int, width: int, weights: Any, out: Any, to: int, margin: int
) -> None:
    """Write rounded averages of the moduli of 2 x 2 pixels, with a margin or without."""
    columns, rows = np.zeros(_NUM_COLUMNS * _SPAN, F), np.zeros(_NUM_ROWS * _CHUNK, F)
    parts, sums = np.zeros(_NUM_PARTS * _CHUNK, F), np.empty(_ANGLES * _CHUNK, np.int32)
    line = (width // 2 + 2 * margin) * LANES
    for y in range(0, height, 2):
        for x in range(0, width * LANES, _CHUNK):
            size = min(_CHUNK, width * LANES - x)
            sums[:] = np.int32(0)
            for row in range(2):
                place = at + _place(width, y + row) + x
                _filter(maps, place, width, weights, size, columns, rows, parts)
                _add_moduli(parts, sums)
            for part in range(_ANGLES):
                angle = part if part < 5 else 12 - part  # those that mirror 1 to 3 come last
                number = angle * (height // 2 + 2 * margin) + y // 2 + margin
                target = to + number * line + margin * LANES + x // 2
                _store_pairs(sums, part * _CHUNK, size, out, target)


@_compiled
def _filter(  # noqa: PLR0913 - arrays and places
    maps: Any, at: int, width: int, weights: Any, size: int, columns: Any, rows: Any, parts: Any
) -> None:
    """Write the parts of all filters for a piece of a row that begins at a place."""
    line, span = (width + 2 * _MARGIN) * LANES, size + 2 * _EDGE
    _copy(maps, at - _EDGE, span, columns, 0)
    for k in range(1, 4):
        below, above = at - _EDGE + k * line, at - _EDGE - k * line
        _pair(maps, below, above, span, columns, k * _SPAN, (3 + k) * _SPAN)
    for k in range(_NUM_COLUMNS):
        even = _EVEN + 4 * k * _CHUNK if k < 4 else _ALONG + 4 * (k - 4) * _CHUNK
        odd = _ACROSS + 3 * k * _CHUNK if k < 4 else _ODD + 3 * (k - 4) * _CHUNK
        middle = k * _SPAN + _EDGE
        _copy(columns, middle, size, rows, even)
        for j in range(1, 4):
            right, left = middle + j * LANES, middle - j * LANES
            _pair(columns, right, left, size, rows, even + j * _CHUNK, odd + (j - 1) * _CHUNK)
    for p in range(5):
        _weigh_16(weights, 16 * (_REAL + p), rows, _EVEN, size, parts, (_REAL + p) * _CHUNK)
    for p in range(3):
        _weigh_9(weights, 16 * (_TURN + p), rows, _ODD, size, parts, (_TURN + p) * _CHUNK)
    for p in range(4):
        q = _IMAGINARY + p
        _weigh_12(weights, 16 * q, rows, _ALONG, size, parts, q * _CHUNK)
        q = _OTHER_TURN + p
        _weigh_12(weights, 16 * q, rows, _ACROSS, size, parts, q * _CHUNK)


@_compiled
def _copy(source: Any, at: int, size: int, out: Any, to: int) -> None:
    here, there = U(at), U(to)
    for m in range(U(size)):
        out[there + m] = source[here + m]


@_compiled
def _pair(  # noqa: PLR0913 - arrays and places
    source: Any, first: int, second: int, size: int, out: Any, sums: int, differences: int
) -> None:
    one, other, even, odd = U(first), U(second), U(sums), U(differences)
    for m in range(U(size)):
        out[even + m] = source[one + m] + source[other + m]
        out[odd + m] = source[one + m] - source[other + m]


def _weigher(num_rows: int) -> Any:
    """Return a loop that adds up so many weighted rows, their number known to the compiler."""

    def weigh(  # noqa: PLR0913 - arrays and places
        weights: Any, first: int, rows: Any, at: int, size: int, out: Any, to: int
    ) -> None:
        weight, row, there = U(first), U(at), U(to)
        for m in range(U(size)):
            total = _NOTHING
            for k in range(U(num_rows)):
                total += weights[weight + k] * rows[row + k * U(_CHUNK) + m]
            out[there + m] = total

    return _compiled(weigh)


_weigh_9, _weigh_12, _weigh_16 = _weigher(9), _weigher(12), _weigher(16)


@_compiled
def _modulus(real: Any, imaginary: Any) -> Any:
    """Return the modulus in units of 2^-16, rounded, of parts in units of 2^-30.

    It is the largest k whose (2 k - 1) 2^13 is at most the root of the square: (2 k - 1)^2 is at
    most the square's part above 2^26. That part is an integer below 2^37, so its float64 root says
    which: the root of (2 k - 1)^2 - 1 is below 2 k - 1 by more than 2^-20.
    """
    r, i = Q(np.int32(real)), Q(np.int32(imaginary))
    square = (r * r + i * i + _FLOOR) >> _CUT
    root = math.sqrt(Q(square | _ONE_IN_BITS).view(np.float64) - _ONE)
    return np.int32(root * 0.5 + 0.5)


@_compiled
def _add_moduli(parts: Any, sums: Any) -> None:
    for m in range(_CHUNK):
        sums[m] += _modulus(parts[_REAL * _CHUNK + m], parts[_OTHER_TURN * _CHUNK + m])
        real, imaginary = parts[(_REAL + 4) * _CHUNK + m], parts[(_IMAGINARY + 3) * _CHUNK + m]
        sums[4 * _CHUNK + m] += _modulus(real, imaginary)
    for m in range(3 * _CHUNK):
        real, turn = parts[(_REAL + 1) * _CHUNK + m], parts[_TURN * _CHUNK + m]
        imaginary, other = parts[_IMAGINARY * _CHUNK + m], parts[(_OTHER_TURN + 1) * _CHUNK + m]
        sums[_CHUNK + m] += _modulus(real + turn, imaginary + other)
        sums[5 * _CHUNK + m] += _modulus(real - turn, imaginary - other)


@_compiled
def _store_pairs(values: Any, at: int, size: int, out: Any, to: int) -> None:
    """Write rounded averages of four pixels, two of them added up before."""
    first, there = U(at), U(to)
    for _ in range(size // (2 * LANES)):
        for m in range(U(LANES)):
            total = values[first + m] + values[first + U(LANES) + m]
            out[there + m] = F((total + np.int32(2)) >> np.int32(2))
        first, there = first + U(2 * LANES), there + U(LANES)
