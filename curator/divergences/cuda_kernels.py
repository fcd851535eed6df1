"""Loops that Triton turns into code for a graphics card; imported only where Triton is.

Every loop runs over whole padded blocks, with no branch on a value. Differences of pixels are taken
before anything is squared or summed, and no matrix unit is used: its short mantissa would be off by
more than the regularisation. Potentials and costs are subtracted before they are divided by it.

Shape legend: N points of the first cloud, M of the second, D pixels.
"""

from __future__ import annotations

import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def cost_kernel(  # noqa: PLR0913 - a kernel's arguments are plain numbers
    first: tl.tensor,
    second: tl.tensor,
    first_labels: tl.tensor,
    second_labels: tl.tensor,
    cost: tl.tensor,
    num_first: tl.constexpr,
    num_second: tl.constexpr,
    num_pixels: tl.constexpr,
    l1_weight: tl.tensor,
    label_gap: tl.tensor,
    BLOCK_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """Write the cost of each pair; each program has a block of pairs and walks over the pixels."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    rows, columns = n[:, None, None], m[None, :, None]
    total = tl.zeros((BLOCK_N, BLOCK_M, BLOCK_D), tl.float32)
    for start in range(0, num_pixels, BLOCK_D):
        pixels = start + tl.arange(0, BLOCK_D)[None, None, :]
        within = pixels < num_pixels
        u = tl.load(first + rows * num_pixels + pixels, within & (rows < num_first), other=0.0)
        v = tl.load(
            second + columns * num_pixels + pixels, within & (columns < num_second), other=0.0
        )
        gap = u - v
        total += gap * gap + l1_weight * tl.abs(gap)
    first_label = tl.load(first_labels + n, n < num_first, other=0)
    second_label = tl.load(second_labels + m, m < num_second, other=0)
    differs = first_label[:, None] != second_label[None, :]
    pairs = tl.sum(total, axis=2) + tl.where(differs, label_gap, 0.0)
    places = n[:, None] * num_second + m[None, :]
    tl.store(cost + places, pairs, (n[:, None] < num_first) & (m[None, :] < num_second))


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _powers(
    cost: tl.tensor,
    potential: tl.tensor,
    log_weights: tl.tensor,
    inverse: tl.tensor,
    AXIS: tl.constexpr,
) -> tl.tensor:
    """Return exp(exponent - top), not below exp(-80), and the tops along an axis."""
    exponents = log_weights + (potential - cost) * inverse
    tops = tl.max(exponents, axis=AXIS)
    return tl.exp(tl.maximum(exponents - tl.expand_dims(tops, AXIS), -80.0)), tops


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _softmin(
    cost: tl.tensor,
    potential: tl.tensor,
    log_weights: tl.tensor,
    reg: tl.tensor,
    AXIS: tl.constexpr,
) -> tl.tensor:
    """Return -reg log sum exp(log_weights + (potential - cost) / reg) along an axis."""
    powers, tops = _powers(cost, potential, log_weights, 1.0 / reg, AXIS)
    return (tl.log(tl.sum(powers, axis=AXIS)) + tops) * -reg


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def plan_kernel(  # noqa: PLR0913 - a kernel's arguments are plain numbers
    cost: tl.tensor,
    first_log_weights: tl.tensor,
    second_log_weights: tl.tensor,
    temperatures: tl.tensor,
    relaxations: tl.tensor,
    averaged: tl.tensor,
    first_plan: tl.tensor,
    second_plan: tl.tensor,
    num_first: tl.constexpr,
    num_second: tl.constexpr,
    num_updates: tl.constexpr,
    HAS_SECOND: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
) -> None:
    """Run every update and write the plans of the last one; one program has the whole problem.

    `averaged` is 1 for an update of both potentials at once, whose relaxation is a half, and 0 for
    one of f, then of g.
    """
    n, m = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_M)
    places = n[:, None] * num_second + m[None, :]
    within = (n[:, None] < num_first) & (m[None, :] < num_second)
    pairs = tl.load(cost + places, within, other=0.0)
    padding = float("-inf")
    log_n = tl.load(first_log_weights + n, n < num_first, other=padding)[:, None]
    log_m = tl.load(second_log_weights + m, m < num_second, other=padding)[None, :]
    start = tl.load(temperatures)
    f = _softmin(pairs, 0.0, log_m, start, 1)
    g = _softmin(pairs, 0.0, log_n, start, 0)
    for k in range(num_updates):
        reg, relaxation = tl.load(temperatures + k), tl.load(relaxations + k)
        moved = f + (_softmin(pairs, g[None, :], log_m, reg, 1) - f) * relaxation
        seen = tl.where(tl.load(averaged + k) != 0, f, moved)
        g += (_softmin(pairs, seen[:, None], log_n, reg, 0) - g) * relaxation
        f = moved
    inverse = 1.0 / tl.load(temperatures + num_updates - 1)
    powers, _ = _powers(pairs, g[None, :], log_m, inverse, 1)
    shares = tl.exp(log_n) / tl.sum(powers, axis=1)[:, None]
    tl.store(first_plan + places, powers * shares, within)
    if HAS_SECOND:
        powers, _ = _powers(pairs, f[:, None], log_n, inverse, 0)
        shares = tl.exp(log_m) / tl.sum(powers, axis=0)[None, :]
        tl.store(second_plan + places, powers * shares, within)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def gradient_kernel(  # noqa: PLR0913 - a kernel's arguments are plain numbers
    plan: tl.tensor,
    first: tl.tensor,
    second: tl.tensor,
    gradient: tl.tensor,
    num_first: tl.constexpr,
    num_second: tl.constexpr,
    num_pixels: tl.constexpr,
    row_stride: tl.tensor,
    column_stride: tl.tensor,
    l1_weight: tl.tensor,
    BLOCK_N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """Write sum_j plan_ij (2 (u_i - v_j) + l1_weight sign(u_i - v_j)); a program walks over j."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    rows, pixels = n[:, None, None], d[None, None, :]
    u = tl.load(
        first + rows * num_pixels + pixels,
        (rows < num_first) & (pixels < num_pixels),
        other=0.0,
    )
    total = tl.zeros((BLOCK_N, BLOCK_M, BLOCK_D), tl.float32)
    for start in range(0, num_second, BLOCK_M):
        columns = start + tl.arange(0, BLOCK_M)[None, :, None]
        within = columns < num_second
        mass = tl.load(
            plan + rows * row_stride + columns * column_stride,
            within & (rows < num_first),
            other=0.0,
        )
        v = tl.load(
            second + columns * num_pixels + pixels, within & (pixels < num_pixels), other=0.0
        )
        gap = u - v
        sign = tl.where(gap > 0, 1.0, 0.0) - tl.where(gap < 0, 1.0, 0.0)
        total += mass * (2.0 * gap + l1_weight * sign)
    places = n[:, None] * num_pixels + d[None, :]
    within = (n[:, None] < num_first) & (d[None, :] < num_pixels)
    tl.store(gradient + places, tl.sum(total, axis=1), within)
