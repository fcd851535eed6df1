"""The scattering and its derivative in compiled loops; imported only where numba is.

A vector holds one pixel of sixteen images, so borders and small grids cost nothing. A window of
7 x 7 pixels is split by parity: sums or differences of pixels that mirror each other, along y and
across x. Each part of a filter sees one parity alone, and two angles that mirror each other have
the same parts but for a sign, so a quarter of the products is left. Moduli are averaged as they
appear, and the way back computes them again: what has the full resolution is never stored.

Shapes: N images, C channels, H height, W width, S coefficients. Inside all arrays are flat: maps
[H, W, 16], those to be filtered [H + 6, W + 6, 16] with a margin of zeros; innermost loops get the
places of what they read and write, unsigned, so that compilers need not ask for their sign.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

F, U = np.float32, np.uint64
LANES = 16
_ANGLES = 8
_MARGIN = 3
_EDGE = _MARGIN * LANES
_CHUNK = 8 * LANES  # of a row at once: what its windows are split into fits the nearest cache
_SPAN = _CHUNK + 2 * _EDGE
_SMOOTHING = F(2.0**-26)
_FIRST_SHARE, _SECOND_SHARE = F(2 / 4), F(6 / 4)  # of one of four pixels, by order
_QUARTER, _HALF, _ONE, _NOTHING = F(0.25), F(0.5), F(1), F(0)

# A window split along y: the middle and three sums, then three differences.
_NUM_COLUMNS = 7
# Then across x: even both ways 4 x 4 rows, odd both ways 3 x 3, odd along 3 x 4, odd across 4 x 3.
_EVEN, _ODD, _ALONG, _ACROSS = 0, 16 * _CHUNK, 25 * _CHUNK, 37 * _CHUNK
_NUM_ROWS = 49
# Real parts are even (angles 0 to 4) plus odd both ways (1 to 3), imaginary ones odd along (1 to 4)
# plus odd across (0 to 3). The angle 8 - a has a minus for that plus.
_REAL, _TURN, _IMAGINARY, _OTHER_TURN = 0, 5, 8, 12
_NUM_PARTS = 16


def _compiled(function: Any) -> Any:
    """Compile for float32, keeping the machine code beside this file where that can be written."""
    options: dict[str, Any] = {"fastmath": {"contract", "reassoc", "nsz"}, "error_model": "numpy"}
    try:
        return njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # no place for a cache: compile again at each start
        return njit(nogil=True, **options)(function)


def split(filters_277: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the weight of each row of a split window in each part of the filters.

    Args:
        filters_277: Real parts, then imaginary ones, [2 * 8, 7, 7].

    Returns:
        [16 * 16], zeros where a part has fewer rows than 16.
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
def scatter(images_NCHW: Any, weights: Any, start: int, rows_NS: Any) -> Any:
    """Write the coefficients of sixteen images, or what is left; return first moduli for `pull`.

    Args:
        images_NCHW: Pixels in [-1, 1].
        weights: See `split`.
        start: Index of the first of these images.
        rows_NS: Written.
    """
    num_images, channels, height, width = images_NCHW.shape
    height, width = (height + 3) // 4 * 2, (width + 3) // 4 * 2
    whole, half = _images(images_NCHW, start)
    size, inner = _map_size(height, width), height // 2 * width // 2 * LANES
    first = np.zeros(_ANGLES * channels * size, F)
    out = np.empty(81 * channels * inner, F)
    for c in range(channels):
        _halve(half, c * size, height, width, _QUARTER, out, c * inner, 0)
        place = c * _map_size(2 * height, 2 * width)
        _moduli(
            whole,
            place,
            2 * height,
            2 * width,
            weights,
            _QUARTER,
            first,
            _ANGLES * c * size,
            _MARGIN,
        )
        place = (9 * channels + _ANGLES * c) * inner
        _moduli(half, c * size, height, width, weights, _FIRST_SHARE, out, place, 0)
    for p in range(_ANGLES * channels):
        _halve(first, p * size, height, width, _FIRST_SHARE, out, (channels + p) * inner, 0)
        place = (17 * channels + _ANGLES * p) * inner
        _moduli(first, p * size, height, width, weights, _SECOND_SHARE, out, place, 0)
    columns = out.reshape(-1, LANES)
    for n in range(min(LANES, num_images - start)):
        for s in range(len(columns)):
            rows_NS[start + n, s] = columns[s, n]
    return first


@_compiled
def pull(
    images_NCHW: Any, first: Any, weights: Any, start: int, slopes_NS: Any, out_NCHW: Any
) -> None:
    """Write the derivative with respect to sixteen images, or what is left.

    Args:
        images_NCHW: Pixels in [-1, 1].
        first: What `scatter` returned for them.
        weights: See `split`.
        start: Index of the first of these images.
        slopes_NS: Derivative with respect to the coefficients.
        out_NCHW: Written.
    """
    _, channels, height, width = images_NCHW.shape
    num_images = min(LANES, len(images_NCHW) - start)
    height, width = (height + 3) // 4 * 2, (width + 3) // 4 * 2
    whole, half = _images(images_NCHW, start)
    size, inner = _map_size(height, width), height // 2 * width // 2 * LANES
    slopes = np.zeros((81 * channels * inner // LANES, LANES), F)
    for n in range(num_images):
        for s in range(len(slopes)):
            slopes[s, n] = slopes_NS[start + n, s]
    slopes = slopes.reshape(-1)
    area = height * width * LANES
    of_first, of_half = np.empty(_ANGLES * area, F), np.empty(area, F)
    small, large = np.zeros(size, F), np.zeros(_map_size(2 * height, 2 * width), F)
    back = _turned(weights)
    for c in range(channels):
        for a in range(_ANGLES):
            p = _ANGLES * c + a
            place = (17 * channels + _ANGLES * p) * inner
            _pull_moduli(
                first, p * size, height, width, weights, back, _SECOND_SHARE, slopes, place, small
            )
            place = (channels + p) * inner
            _add_slopes(small, height, width, _FIRST_SHARE, slopes, place, of_first, a * area)
        place = (9 * channels + _ANGLES * c) * inner
        _pull_moduli(
            half, c * size, height, width, weights, back, _FIRST_SHARE, slopes, place, small
        )
        _add_slopes(small, height, width, _QUARTER, slopes, c * inner, of_half, 0)
        place = c * _map_size(2 * height, 2 * width)
        _pull_moduli(
            whole, place, 2 * height, 2 * width, weights, back, _QUARTER, of_first, 0, large
        )
        for n in range(num_images):
            for y in range(out_NCHW.shape[2]):
                row, coarse = _place(2 * width, y), y // 2 * width * LANES + n
                for x in range(out_NCHW.shape[3]):
                    slope = large[row + x * LANES + n] + of_half[coarse + x // 2 * LANES] * _QUARTER
                    out_NCHW[start + n, c, y, x] = slope * _HALF


@_compiled
def _map_size(height: int, width: int) -> int:
    """Return the length of a map with its margin."""
    return (height + 2 * _MARGIN) * (width + 2 * _MARGIN) * LANES


@_compiled
def _place(width: int, y: int) -> int:
    """Return the place of a row's first pixel in a map with a margin."""
    return (y + _MARGIN) * (width + 2 * _MARGIN) * LANES + _EDGE


@_compiled
def _images(images_NCHW: Any, start: int) -> Any:
    """Return images in [0, 1], padded to multiples of four, and averages of 2 x 2 of them."""
    num_images, channels, rows, columns = images_NCHW.shape
    height, width = (rows + 3) // 4 * 2, (columns + 3) // 4 * 2
    size, half_size = _map_size(2 * height, 2 * width), _map_size(height, width)
    whole, half = np.zeros(channels * size, F), np.zeros(channels * half_size, F)
    for c in range(channels):
        for n in range(min(LANES, num_images - start)):
            for y in range(rows):
                place = c * size + _place(2 * width, y) + n
                for x in range(columns):
                    whole[place + x * LANES] = (images_NCHW[start + n, c, y, x] + _ONE) * _HALF
        _halve(whole, c * size, 2 * height, 2 * width, _QUARTER, half, c * half_size, _MARGIN)
    return whole, half


@_compiled
def _halve(  # noqa: PLR0913 - arrays and places
    maps: Any, at: int, height: int, width: int, share: Any, out: Any, to: int, margin: int
) -> None:
    """Write sums of 2 x 2 pixels times a share, with a margin or without."""
    for y in range(height // 2):
        upper, lower = at + _place(width, 2 * y), at + _place(width, 2 * y + 1)
        target = to + ((y + margin) * (width // 2 + 2 * margin) + margin) * LANES
        for _ in range(width // 2):
            first, second, there = U(upper), U(lower), U(target)
            for m in range(U(LANES)):
                left = maps[first + m] + maps[second + m]
                right = maps[first + m + U(LANES)] + maps[second + m + U(LANES)]
                out[there + m] = share * (left + right)
            upper, lower, target = upper + 2 * LANES, lower + 2 * LANES, target + LANES


@_compiled
def _moduli(  # noqa: PLR0913 - arrays and places
    maps: Any,
    at: int,
    height: int,
    width: int,
    weights: Any,
    share: Any,
    out: Any,
    to: int,
    margin: int,
) -> None:
    """Write sums of the moduli of 2 x 2 pixels times a share, with a margin or without."""
    columns, rows, parts = _work()
    sums = np.empty(_ANGLES * _CHUNK, F)
    line = (width // 2 + 2 * margin) * LANES
    for y in range(0, height, 2):
        for x in range(0, width * LANES, _CHUNK):
            size = min(_CHUNK, width * LANES - x)
            sums[:] = _NOTHING
            for row in range(2):
                _filter(
                    maps,
                    at + _place(width, y + row) + x,
                    width,
                    weights,
                    size,
                    columns,
                    rows,
                    parts,
                )
                _add_moduli(parts, sums)
            for part in range(_ANGLES):
                line_number = _angle(part) * (height // 2 + 2 * margin) + y // 2 + margin
                target = to + line_number * line + margin * LANES + x // 2
                _store_pairs(sums, part * _CHUNK, size, share, out, target)


@_compiled
def _work() -> Any:
    """Return room for columns, rows and parts; what is not written is finite."""
    columns = np.zeros(2 * _NUM_COLUMNS * _SPAN, F)
    return columns, np.zeros(_NUM_ROWS * _CHUNK, F), np.zeros(_NUM_PARTS * _CHUNK, F)


@_compiled
def _angle(part: int) -> int:
    """Return which angle a modulus has: 0 to 4, then those that mirror 1 to 3."""
    return part if part < 5 else 12 - part


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
def _add_moduli(parts: Any, sums: Any) -> None:
    for m in range(_CHUNK):
        r, i = parts[_REAL * _CHUNK + m], parts[_OTHER_TURN * _CHUNK + m]
        sums[m] += math.sqrt(r * r + i * i + _SMOOTHING)
        r, i = parts[(_REAL + 4) * _CHUNK + m], parts[(_IMAGINARY + 3) * _CHUNK + m]
        sums[4 * _CHUNK + m] += math.sqrt(r * r + i * i + _SMOOTHING)
    for m in range(3 * _CHUNK):
        r, s = parts[(_REAL + 1) * _CHUNK + m], parts[_TURN * _CHUNK + m]
        i, j = parts[_IMAGINARY * _CHUNK + m], parts[(_OTHER_TURN + 1) * _CHUNK + m]
        sums[_CHUNK + m] += math.sqrt((r + s) * (r + s) + (i + j) * (i + j) + _SMOOTHING)
        sums[5 * _CHUNK + m] += math.sqrt((r - s) * (r - s) + (i - j) * (i - j) + _SMOOTHING)


@_compiled
def _store_pairs(values: Any, at: int, size: int, share: Any, out: Any, to: int) -> None:
    """Write sums of two pixels beside each other times a share."""
    first, there = U(at), U(to)
    for _ in range(size // (2 * LANES)):
        for m in range(U(LANES)):
            out[there + m] = share * (values[first + m] + values[first + U(LANES) + m])
        first, there = first + U(2 * LANES), there + U(LANES)


@_compiled
def _pull_moduli(  # noqa: PLR0913 - arrays and places
    maps: Any,
    at: int,
    height: int,
    width: int,
    weights: Any,
    back: Any,
    share: Any,
    slopes: Any,
    slopes_at: int,
    out: Any,
) -> None:
    """Write the derivative with respect to a map, and what falls on its margin.

    Args:
        maps: As `_moduli` had them, and so the next four.
        at: Place of the map.
        height: Of the map.
        width: Of the map.
        weights: Of the parts.
        back: See `_turned`.
        share: Of a pixel.
        slopes: Derivative with respect to what was written, without a margin.
        slopes_at: Place of the first.
        out: Written.
    """
    columns, rows, parts = _work()
    wide = np.zeros(_ANGLES * _CHUNK, F)
    out[:] = _NOTHING
    line = (width + 2 * _MARGIN) * LANES
    for y in range(height):
        for x in range(0, width * LANES, _CHUNK):
            size = min(_CHUNK, width * LANES - x)
            place = _place(width, y) + x
            _filter(maps, at + place, width, weights, size, columns, rows, parts)
            for part in range(_ANGLES):
                row = _angle(part) * (height // 2) + y // 2
                source = slopes_at + (row * width + x // LANES) // 2 * LANES
                _widen(slopes, source, share, size, wide, part * _CHUNK)
            _pull_parts(parts, wide)
            columns[:] = _NOTHING
            for k in range(_NUM_COLUMNS):
                even = (_REAL if k < 4 else _IMAGINARY) * _CHUNK
                odd = (_OTHER_TURN if k < 4 else _TURN) * _CHUNK
                for j in range(4):
                    right = k * _SPAN + _EDGE + j * LANES
                    left = (_NUM_COLUMNS + k) * _SPAN + _EDGE - j * LANES
                    _spread(back, (4 * k + j) * 9, parts, even, odd, size, columns, right, left)
            span = size + 2 * _EDGE
            _add(columns, 0, span, out, place - _EDGE)
            _add(columns, _NUM_COLUMNS * _SPAN, span, out, place - _EDGE)
            for k in range(1, 4):
                below, above = place - _EDGE + k * line, place - _EDGE - k * line
                _join(columns, k * _SPAN, span, out, below, above)


@_compiled
def _turned(weights: Any) -> Any:
    """Return the weights of the parts, five even and four odd ones, by column and row.

    Rows in the middle of a column go to it twice, so they have half of their weight.
    """
    back = np.zeros((_NUM_COLUMNS, 4, 9), F)
    table = weights.reshape(_NUM_PARTS, 16)
    for j in range(4):
        share = _HALF if j == 0 else _ONE
        for k in range(4):
            for p in range(5):
                back[k, j, p] = table[_REAL + p, 4 * k + j] * share
            for p in range(4 * (j > 0)):
                back[k, j, 5 + p] = table[_OTHER_TURN + p, 3 * k + j - 1]
        for k in range(3):
            for p in range(4):
                back[4 + k, j, p] = table[_IMAGINARY + p, 4 * k + j] * share
            for p in range(3 * (j > 0)):
                back[4 + k, j, 5 + p] = table[_TURN + p, 3 * k + j - 1]
    return back.reshape(-1)


@_compiled
def _widen(slopes: Any, at: int, share: Any, size: int, wide: Any, to: int) -> None:
    """Write slopes of two pixels beside each other."""
    here, there = U(at), U(to)
    for _ in range(size // (2 * LANES)):
        for m in range(U(LANES)):
            slope = slopes[here + m] * share
            wide[there + m] = slope
            wide[there + U(LANES) + m] = slope
        here, there = here + U(LANES), there + U(2 * LANES)


@_compiled
def _pull_parts(parts: Any, slopes: Any) -> None:
    """Put the derivative with respect to the parts in their place."""
    for m in range(_CHUNK):
        r, i = parts[_REAL * _CHUNK + m], parts[_OTHER_TURN * _CHUNK + m]
        slope = slopes[m] / math.sqrt(r * r + i * i + _SMOOTHING)
        parts[_REAL * _CHUNK + m], parts[_OTHER_TURN * _CHUNK + m] = r * slope, i * slope
        r, i = parts[(_REAL + 4) * _CHUNK + m], parts[(_IMAGINARY + 3) * _CHUNK + m]
        slope = slopes[4 * _CHUNK + m] / math.sqrt(r * r + i * i + _SMOOTHING)
        parts[(_REAL + 4) * _CHUNK + m], parts[(_IMAGINARY + 3) * _CHUNK + m] = r * slope, i * slope
    for m in range(3 * _CHUNK):
        r, s = parts[(_REAL + 1) * _CHUNK + m], parts[_TURN * _CHUNK + m]
        i, j = parts[_IMAGINARY * _CHUNK + m], parts[(_OTHER_TURN + 1) * _CHUNK + m]
        square = (r + s) * (r + s) + (i + j) * (i + j) + _SMOOTHING
        first = slopes[_CHUNK + m] / math.sqrt(square)
        square = (r - s) * (r - s) + (i - j) * (i - j) + _SMOOTHING
        second = slopes[5 * _CHUNK + m] / math.sqrt(square)
        both, rest = first + second, first - second
        parts[(_REAL + 1) * _CHUNK + m] = r * both + s * rest
        parts[_TURN * _CHUNK + m] = r * rest + s * both
        parts[_IMAGINARY * _CHUNK + m] = i * both + j * rest
        parts[(_OTHER_TURN + 1) * _CHUNK + m] = i * rest + j * both


@_compiled
def _spread(  # noqa: PLR0913 - arrays and places
    back: Any,
    first: int,
    parts: Any,
    even: int,
    odd: int,
    size: int,
    columns: Any,
    right: int,
    left: int,
) -> None:
    """Add the derivative of a row to the columns, where nothing is added to twice at once."""
    weight, evens, odds, one, other = U(first), U(even), U(odd), U(right), U(left)
    for m in range(U(size)):
        total, rest = _NOTHING, _NOTHING
        for p in range(U(5)):
            total += back[weight + p] * parts[evens + p * U(_CHUNK) + m]
        for p in range(U(4)):
            rest += back[weight + U(5) + p] * parts[odds + p * U(_CHUNK) + m]
        columns[one + m] += total + rest
        columns[other + m] += total - rest


@_compiled
def _add(source: Any, at: int, size: int, out: Any, to: int) -> None:
    here, there = U(at), U(to)
    for m in range(U(size)):
        out[there + m] += source[here + m]


@_compiled
def _join(columns: Any, at: int, size: int, out: Any, below: int, above: int) -> None:
    """Add the derivative of a sum and of a difference, each in two halves, to their pixels."""
    even, one, other = U(at), U(below), U(above)
    odd, rest = U(3 * _SPAN), U(_NUM_COLUMNS * _SPAN)
    for m in range(U(size)):
        total = columns[even + m] + columns[even + rest + m]
        difference = columns[even + odd + m] + columns[even + odd + rest + m]
        out[one + m] += total + difference
        out[other + m] += total - difference


@_compiled
def _add_slopes(  # noqa: PLR0913 - arrays and places
    maps: Any, height: int, width: int, share: Any, coarse: Any, at: int, out: Any, to: int
) -> None:
    """Write what is inside the margin plus a share of what the pixel of half the resolution has."""
    for y in range(height):
        for x in range(width):
            here = U(_place(width, y) + x * LANES)
            there, pixel = (
                U(to + (y * width + x) * LANES),
                U(at + (y // 2 * (width // 2) + x // 2) * LANES),
            )
            for m in range(U(LANES)):
                out[there + m] = maps[here + m] + share * coarse[pixel + m]
