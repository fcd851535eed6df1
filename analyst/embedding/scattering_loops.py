"""The scattering and its derivative in compiled loops; imported only where numba is.

A vector holds one pixel of sixteen images, so borders and small grids cost nothing. A window of
7 x 7 pixels is split by parity: sums or differences of pixels that mirror each other, along y and
across x. Each part of a filter sees one parity alone, and two angles that mirror each other have
the same parts but for a sign, so a quarter of the products is left. Moduli are averaged as they
appear, and the way back computes them again: what has the full resolution is never stored.

Shapes: N images, C channels, H height, W width, S coefficients. Inside all arrays are flat: maps
[H, W, 16], those to be filtered [H + 6, W + 6, 16] with a margin of zeros; functions get the places
of what they read and write.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from analyst.embedding.vectors import (
    WIDTH,
    filled,
    load,
    minus,
    over,
    plus,
    root,
    store,
    times,
    weighed,
)

F, U = np.float32, np.uint64
LANES = 16
_ANGLES = 8
_MARGIN = 3
_EDGE = _MARGIN * LANES
_CHUNK = 14 * LANES  # of a row at once: what its windows are split into fits the nearest cache
_SPAN = _CHUNK + 2 * _EDGE
_TILE = 64  # coefficients that change places at once
_SMOOTHING = F(2.0**-26)
_FIRST_SHARE, _SECOND_SHARE = F(2 / 4), F(6 / 4)  # of one of four pixels, by order
_QUARTER, _HALF, _ONE, _NOTHING = F(0.25), F(0.5), F(1), F(0)

# A window split along y: the middle and three sums, then three differences. Across x each of these
# columns has a middle and three sums, which are even, and three differences, which are odd. Real
# parts are even in sums of rows (angles 0 to 4) plus odd in differences (1 to 3), imaginary ones
# even in differences (1 to 4) plus odd in sums (0 to 3). The angle 8 - a has a minus for that plus.
_NUM_COLUMNS, _NUM_SUMS = 7, 4
_REAL, _OTHER_TURN, _IMAGINARY, _TURN = 0, 5 * WIDTH, 9 * WIDTH, 13 * WIDTH
_NUM_PARTS = 16
_EVENS, _STEP = 5, 9  # weights of a place: five that are even, or four, then those that are odd
_LINE = 4 * _STEP  # of a column


def _compiled(function: Any) -> Any:
    """Compile for float32, keeping the machine code beside this file where that can be written."""
    options: dict[str, Any] = {"fastmath": {"contract", "reassoc", "nsz"}, "error_model": "numpy"}
    try:
        return njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # no place for a cache: compile again at each start
        return njit(nogil=True, **options)(function)


def split(filters_277: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the weight of each place of a split window in each part of the filters.

    Args:
        filters_277: Real parts, then imaginary ones, [2 * 8, 7, 7].

    Returns:
        [7 * 4 * 9]: by column and by distance from the middle, zeros where there are fewer parts.
    """
    weights = np.zeros((_NUM_COLUMNS, 4, _STEP), F)
    quadrants, mirrored = filters_277[:, 3:, 3:], filters_277[:, 3:, 3::-1]
    even, odd = (quadrants + mirrored) / 2, (quadrants - mirrored) / 2
    for angle in range(5):
        weights[:4, :, angle] = even[angle]
    for angle in range(4):
        weights[:4, 1:, _EVENS + angle] = odd[_ANGLES + angle, :, 1:]
        weights[4:, :, angle] = even[_ANGLES + angle + 1, 1:]
    for angle in range(1, 4):
        weights[4:, 1:, _EVENS + angle - 1] = odd[angle, 1:, 1:]
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
    for begin in range(0, len(columns), _TILE):
        for n in range(min(LANES, num_images - start)):
            for s in range(begin, min(begin + _TILE, len(columns))):
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
    slopes = _columns(slopes_NS, start, num_images)
    area = height * width * LANES
    of_first, of_half = np.empty(_ANGLES * area, F), np.empty(area, F)
    small, large = np.zeros(size, F), np.zeros(_map_size(2 * height, 2 * width), F)
    for c in range(channels):
        for a in range(_ANGLES):
            p = _ANGLES * c + a
            place = (17 * channels + _ANGLES * p) * inner
            _pull_moduli(
                first, p * size, height, width, weights, _SECOND_SHARE, slopes, place, small
            )
            place = (channels + p) * inner
            _add_slopes(small, height, width, _FIRST_SHARE, slopes, place, of_first, a * area)
        place = (9 * channels + _ANGLES * c) * inner
        _pull_moduli(half, c * size, height, width, weights, _FIRST_SHARE, slopes, place, small)
        _add_slopes(small, height, width, _QUARTER, slopes, c * inner, of_half, 0)
        place = c * _map_size(2 * height, 2 * width)
        _pull_moduli(whole, place, 2 * height, 2 * width, weights, _QUARTER, of_first, 0, large)
        for n in range(num_images):
            for y in range(out_NCHW.shape[2]):
                row, coarse = _place(2 * width, y), y // 2 * width * LANES + n
                for x in range(out_NCHW.shape[3]):
                    slope = large[row + x * LANES + n] + of_half[coarse + x // 2 * LANES] * _QUARTER
                    out_NCHW[start + n, c, y, x] = slope * _HALF


@_compiled
def _columns(rows_NS: Any, start: int, num_images: int) -> Any:
    """Return rows of sixteen images, or what is left and zeros, with the images innermost."""
    columns = np.zeros((rows_NS.shape[1], LANES), F)
    for begin in range(0, len(columns), _TILE):
        for n in range(num_images):
            for s in range(begin, min(begin + _TILE, len(columns))):
                columns[s, n] = rows_NS[start + n, s]
    return columns.reshape(-1)


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
    columns = np.empty(2 * _NUM_COLUMNS * _SPAN, F)
    parts, sums = np.empty(_NUM_PARTS * WIDTH, F), np.empty(_ANGLES * WIDTH, F)
    line, shares = (width // 2 + 2 * margin) * LANES, filled(share)
    for y in range(0, height, 2):
        for x in range(0, width * LANES, _CHUNK):
            size = min(_CHUNK, width * LANES - x)
            for row in range(2):
                place = at + _place(width, y + row) + x
                _split_rows(maps, place, width, size, columns, row * _NUM_COLUMNS * _SPAN)
            for lane in range(0, LANES, WIDTH):
                for pair in range(lane, size, 2 * LANES):
                    sums[:] = _NOTHING
                    for pixel in range(4):
                        middle = pixel // 2 * _NUM_COLUMNS * _SPAN + pixel % 2 * LANES
                        _filter(columns, middle + pair + _EDGE, weights, parts)
                        _add_moduli(parts, sums)
                    for part in range(_ANGLES):
                        number = _angle(part) * (height // 2 + 2 * margin) + y // 2 + margin
                        target = to + number * line + margin * LANES + (x + pair - lane) // 2 + lane
                        store(out, target, times(load(sums, part * WIDTH), shares))


@_compiled
def _angle(part: int) -> int:
    """Return which angle a modulus has: 0 to 4, then those that mirror 1 to 3."""
    return part if part < 5 else 12 - part


@_compiled
def _split_rows(maps: Any, at: int, width: int, size: int, columns: Any, to: int) -> None:
    """Write the columns of all windows of a piece of a row that begins at a place."""
    line = (width + 2 * _MARGIN) * LANES
    for m in range(0, size + 2 * _EDGE, WIDTH):
        here, there = at - _EDGE + m, to + m
        store(columns, there, load(maps, here))
        for k in range(1, 4):
            below, above = load(maps, here + k * line), load(maps, here - k * line)
            store(columns, there + k * _SPAN, plus(below, above))
            store(columns, there + (3 + k) * _SPAN, minus(below, above))


@_compiled
def _filter(columns: Any, at: int, weights: Any, parts: Any) -> None:
    """Write the parts of all filters for the window around a place of the columns."""
    nothing = filled(_NOTHING)
    e0, e1, e2, e3, e4 = nothing, nothing, nothing, nothing, nothing
    o0, o1, o2, o3 = nothing, nothing, nothing, nothing
    for k in range(_NUM_SUMS):
        middle, w = at + k * _SPAN, k * _LINE
        even = load(columns, middle)
        e0, e1 = weighed(e0, weights, w, even), weighed(e1, weights, w + 1, even)
        e2, e3 = weighed(e2, weights, w + 2, even), weighed(e3, weights, w + 3, even)
        e4 = weighed(e4, weights, w + 4, even)
        for j in range(1, 4):
            right, left = load(columns, middle + j * LANES), load(columns, middle - j * LANES)
            even, odd, w = plus(right, left), minus(right, left), w + _STEP
            e0, e1 = weighed(e0, weights, w, even), weighed(e1, weights, w + 1, even)
            e2, e3 = weighed(e2, weights, w + 2, even), weighed(e3, weights, w + 3, even)
            e4 = weighed(e4, weights, w + 4, even)
            o0, o1 = weighed(o0, weights, w + 5, odd), weighed(o1, weights, w + 6, odd)
            o2, o3 = weighed(o2, weights, w + 7, odd), weighed(o3, weights, w + 8, odd)
    store(parts, _REAL, e0)
    store(parts, _REAL + WIDTH, e1)
    store(parts, _REAL + 2 * WIDTH, e2)
    store(parts, _REAL + 3 * WIDTH, e3)
    store(parts, _REAL + 4 * WIDTH, e4)
    store(parts, _OTHER_TURN, o0)
    store(parts, _OTHER_TURN + WIDTH, o1)
    store(parts, _OTHER_TURN + 2 * WIDTH, o2)
    store(parts, _OTHER_TURN + 3 * WIDTH, o3)
    e0, e1, e2, e3, o0, o1, o2 = nothing, nothing, nothing, nothing, nothing, nothing, nothing
    for k in range(_NUM_SUMS, _NUM_COLUMNS):
        middle, w = at + k * _SPAN, k * _LINE
        even = load(columns, middle)
        e0, e1 = weighed(e0, weights, w, even), weighed(e1, weights, w + 1, even)
        e2, e3 = weighed(e2, weights, w + 2, even), weighed(e3, weights, w + 3, even)
        for j in range(1, 4):
            right, left = load(columns, middle + j * LANES), load(columns, middle - j * LANES)
            even, odd, w = plus(right, left), minus(right, left), w + _STEP
            e0, e1 = weighed(e0, weights, w, even), weighed(e1, weights, w + 1, even)
            e2, e3 = weighed(e2, weights, w + 2, even), weighed(e3, weights, w + 3, even)
            o0, o1 = weighed(o0, weights, w + 5, odd), weighed(o1, weights, w + 6, odd)
            o2 = weighed(o2, weights, w + 7, odd)
    store(parts, _IMAGINARY, e0)
    store(parts, _IMAGINARY + WIDTH, e1)
    store(parts, _IMAGINARY + 2 * WIDTH, e2)
    store(parts, _IMAGINARY + 3 * WIDTH, e3)
    store(parts, _TURN, o0)
    store(parts, _TURN + WIDTH, o1)
    store(parts, _TURN + 2 * WIDTH, o2)


@_compiled
def _squares(one: Any, other: Any) -> Any:
    """Return the smoothed squares of moduli."""
    return plus(plus(times(one, one), times(other, other)), filled(_SMOOTHING))


@_compiled
def _add_moduli(parts: Any, sums: Any) -> None:
    """Add the moduli of a pixel to sums, in the order of `_angle`."""
    for p in range(0, 5 * WIDTH, 4 * WIDTH):
        other = load(parts, _OTHER_TURN if p == 0 else _IMAGINARY + 3 * WIDTH)
        store(sums, p, plus(load(sums, p), root(_squares(load(parts, _REAL + p), other))))
    for p in range(0, 3 * WIDTH, WIDTH):
        r, s = load(parts, _REAL + WIDTH + p), load(parts, _TURN + p)
        i, j = load(parts, _IMAGINARY + p), load(parts, _OTHER_TURN + WIDTH + p)
        one, mirrored = p + WIDTH, p + 5 * WIDTH
        modulus = root(_squares(plus(r, s), plus(i, j)))
        store(sums, one, plus(load(sums, one), modulus))
        modulus = root(_squares(minus(r, s), minus(i, j)))
        store(sums, mirrored, plus(load(sums, mirrored), modulus))


@_compiled
def _pull_moduli(  # noqa: PLR0913 - arrays and places
    maps: Any,
    at: int,
    height: int,
    width: int,
    weights: Any,
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
        weights: See `split`.
        share: Of a pixel.
        slopes: Derivative with respect to what was written, without a margin.
        slopes_at: Place of the first.
        out: Written.
    """
    columns, pulled = np.empty(_NUM_COLUMNS * _SPAN, F), np.empty(_NUM_COLUMNS * _SPAN, F)
    parts, steps = np.empty(_NUM_PARTS * WIDTH, F), np.empty(_ANGLES * WIDTH, F)
    line, shares = (width + 2 * _MARGIN) * LANES, filled(share)
    out[:] = _NOTHING
    for y in range(height):
        for x in range(0, width * LANES, _CHUNK):
            size = min(_CHUNK, width * LANES - x)
            place = _place(width, y) + x
            _split_rows(maps, at + place, width, size, columns, 0)
            pulled[:] = _NOTHING
            for lane in range(0, LANES, WIDTH):
                for m in range(lane, size, LANES):
                    for part in range(_ANGLES):
                        row = _angle(part) * (height // 2) + y // 2
                        pixel = (row * width + (x + m) // LANES) // 2 * LANES
                        slope = load(slopes, slopes_at + pixel + lane)
                        store(steps, part * WIDTH, times(slope, shares))
                    _filter(columns, m + _EDGE, weights, parts)
                    _pull_parts(parts, steps)
                    _spread(parts, weights, pulled, m + _EDGE)
            for m in range(0, size + 2 * _EDGE, WIDTH):
                here = place - _EDGE + m
                store(out, here, plus(load(out, here), load(pulled, m)))
                for k in range(1, 4):
                    total, rest = load(pulled, m + k * _SPAN), load(pulled, m + (3 + k) * _SPAN)
                    below, above = here + k * line, here - k * line
                    store(out, below, plus(load(out, below), plus(total, rest)))
                    store(out, above, plus(load(out, above), minus(total, rest)))


@_compiled
def _pull_parts(parts: Any, slopes: Any) -> None:
    """Put the derivative with respect to the parts of a pixel in their place."""
    for p in range(0, 5 * WIDTH, 4 * WIDTH):
        q = _OTHER_TURN if p == 0 else _IMAGINARY + 3 * WIDTH
        one, other = load(parts, _REAL + p), load(parts, q)
        slope = over(load(slopes, p), root(_squares(one, other)))
        store(parts, _REAL + p, times(one, slope))
        store(parts, q, times(other, slope))
    for p in range(0, 3 * WIDTH, WIDTH):
        r, s = load(parts, _REAL + WIDTH + p), load(parts, _TURN + p)
        i, j = load(parts, _IMAGINARY + p), load(parts, _OTHER_TURN + WIDTH + p)
        first = over(load(slopes, p + WIDTH), root(_squares(plus(r, s), plus(i, j))))
        second = over(load(slopes, p + 5 * WIDTH), root(_squares(minus(r, s), minus(i, j))))
        both, rest = plus(first, second), minus(first, second)
        store(parts, _REAL + WIDTH + p, plus(times(r, both), times(s, rest)))
        store(parts, _TURN + p, plus(times(r, rest), times(s, both)))
        store(parts, _IMAGINARY + p, plus(times(i, both), times(j, rest)))
        store(parts, _OTHER_TURN + WIDTH + p, plus(times(i, rest), times(j, both)))


@_compiled
def _spread(parts: Any, weights: Any, columns: Any, at: int) -> None:
    """Add the derivative of a pixel's parts to the columns of its window."""
    nothing = filled(_NOTHING)
    e0, e1 = load(parts, _REAL), load(parts, _REAL + WIDTH)
    e2, e3 = load(parts, _REAL + 2 * WIDTH), load(parts, _REAL + 3 * WIDTH)
    e4 = load(parts, _REAL + 4 * WIDTH)
    o0, o1 = load(parts, _OTHER_TURN), load(parts, _OTHER_TURN + WIDTH)
    o2, o3 = load(parts, _OTHER_TURN + 2 * WIDTH), load(parts, _OTHER_TURN + 3 * WIDTH)
    for k in range(_NUM_SUMS):
        middle, w = at + k * _SPAN, k * _LINE
        total = weighed(load(columns, middle), weights, w, e0)
        total = weighed(weighed(total, weights, w + 1, e1), weights, w + 2, e2)
        total = weighed(weighed(total, weights, w + 3, e3), weights, w + 4, e4)
        store(columns, middle, total)
        for j in range(1, 4):
            right, left, w = middle + j * LANES, middle - j * LANES, w + _STEP
            even = weighed(weighed(nothing, weights, w, e0), weights, w + 1, e1)
            even = weighed(weighed(even, weights, w + 2, e2), weights, w + 3, e3)
            even = weighed(even, weights, w + 4, e4)
            odd = weighed(weighed(nothing, weights, w + 5, o0), weights, w + 6, o1)
            odd = weighed(weighed(odd, weights, w + 7, o2), weights, w + 8, o3)
            store(columns, right, plus(load(columns, right), plus(even, odd)))
            store(columns, left, plus(load(columns, left), minus(even, odd)))
    e0, e1 = load(parts, _IMAGINARY), load(parts, _IMAGINARY + WIDTH)
    e2, e3 = load(parts, _IMAGINARY + 2 * WIDTH), load(parts, _IMAGINARY + 3 * WIDTH)
    o0, o1 = load(parts, _TURN), load(parts, _TURN + WIDTH)
    o2 = load(parts, _TURN + 2 * WIDTH)
    for k in range(_NUM_SUMS, _NUM_COLUMNS):
        middle, w = at + k * _SPAN, k * _LINE
        total = weighed(load(columns, middle), weights, w, e0)
        total = weighed(weighed(total, weights, w + 1, e1), weights, w + 2, e2)
        store(columns, middle, weighed(total, weights, w + 3, e3))
        for j in range(1, 4):
            right, left, w = middle + j * LANES, middle - j * LANES, w + _STEP
            even = weighed(weighed(nothing, weights, w, e0), weights, w + 1, e1)
            even = weighed(weighed(even, weights, w + 2, e2), weights, w + 3, e3)
            odd = weighed(weighed(nothing, weights, w + 5, o0), weights, w + 6, o1)
            odd = weighed(odd, weights, w + 7, o2)
            store(columns, right, plus(load(columns, right), plus(even, odd)))
            store(columns, left, plus(load(columns, left), minus(even, odd)))


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
