"""Loops that a just-in-time compiler turns into vector code; imported only where numba is.

Every loop runs over all of its arrays, with no branch on a value: comparisons become masks. So the
time tells nothing about the numbers. The exponential is a polynomial after range reduction, the
same instructions for every argument, where a library's would have slow and fast paths.

Shape legend: N points of the first cloud, M of the second, D pixels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

F = np.float32
_HUGE = F(2.0**100)
_FAST = {"contract", "reassoc", "nsz"}  # infinities keep their meaning: they mark padding


def _compiled(function: Any) -> Any:
    """Compile for float32, keeping the machine code beside this file where that can be written."""
    try:
        return njit(cache=True, fastmath=_FAST, error_model="numpy", nogil=True)(function)
    except RuntimeError:  # no place for a cache: compile again at each start
        return njit(fastmath=_FAST, error_model="numpy", nogil=True)(function)


@njit(inline="always", fastmath={"contract"})  # type: ignore[untyped-decorator, unused-ignore]
def exp32(x: F) -> F:
    """Return exp(x) for x in [-87, 0], within 3e-7 of its value.

    x is k log 2 + r with |r| <= log(2) / 2, log 2 in two parts of which the first has few bits;
    exp(r) is 1 + r + r^2 times the Chebyshev fit of (exp(r) - 1 - r) / r^2, good to 1.4e-9.
    """
    k = math.floor(x * F(1.44269504) + F(0.5))
    r = x - k * F(0.693359375)
    r = r + k * F(2.12194440e-4)
    p = F(1.98909908e-4)
    p = p * r + F(1.39336500e-3)
    p = p * r + F(8.33331093e-3)
    p = p * r + F(4.16664649e-2)
    p = p * r + F(1.66666667e-1)
    p = p * r + F(0.5)
    power = np.int32(np.int32(k) + np.int32(127)) << np.int32(23)
    return (p * r * r + r + F(1)) * np.int32(power).view(np.float32)


@njit(inline="always", fastmath={"contract"})  # type: ignore[untyped-decorator, unused-ignore]
def _signed(huge_u: F, v: F, mass: F) -> F:
    """Return the mass with the sign of u - v, zero where they are equal.

    A difference above 1e-30, made huge, is more than any mass; powers of two round nothing.
    """
    return min(max(huge_u - v * _HUGE, -mass), mass)


@_compiled
def pair_costs(  # noqa: PLR0913 - arrays, as compiled loops take them
    first_ND: Any,
    second_MD: Any,
    first_labels_N: Any,
    second_labels_M: Any,
    l1_weight: F,
    label_gap: F,
    is_alone: Any,
    out_NM: Any,
    out_MN: Any,
) -> None:
    """Write the labelled cost of each pair, and again with the clouds swapped.

    Four points of the second cloud stay in the nearest cache while the first cloud passes by;
    where fewer are left, the last one is computed again. A cloud that is alone is both clouds,
    with one array for both costs: half of the pairs are enough.
    """
    last = second_MD.shape[0] - 1
    for j in range(0, last + 1, 4):
        j1, j2, j3 = min(j + 1, last), min(j + 2, last), min(j + 3, last)
        for i in range(min(first_ND.shape[0], j + 4) if is_alone else first_ND.shape[0]):
            t0, t1, t2, t3 = F(0), F(0), F(0), F(0)
            for d in range(first_ND.shape[1]):
                u = first_ND[i, d]
                e0, e1 = abs(u - second_MD[j, d]), abs(u - second_MD[j1, d])
                e2, e3 = abs(u - second_MD[j2, d]), abs(u - second_MD[j3, d])
                t0 += e0 * (e0 + l1_weight)
                t1 += e1 * (e1 + l1_weight)
                t2 += e2 * (e2 + l1_weight)
                t3 += e3 * (e3 + l1_weight)
            for k, total in ((j, t0), (j1, t1), (j2, t2), (j3, t3)):
                gap = label_gap if first_labels_N[i] != second_labels_M[k] else F(0)
                out_NM[i, k] = total + gap
                out_MN[k, i] = total + gap


@_compiled
def add_sign_sums(plan_MN: Any, weight: F, first_ND: Any, second_MD: Any, out_ND: Any) -> None:
    """Add weight times sum_j plan_ji sign(u_i - v_j), sign(0) being 0.

    Points of the second cloud go in eights; what is missing there has no mass.
    """
    rows, last = first_ND.shape[0], second_MD.shape[0] - 1
    for j in range(0, last + 1, 8):
        j1, j2, j3, j4 = min(j + 1, last), min(j + 2, last), min(j + 3, last), min(j + 4, last)
        j5, j6, j7 = min(j + 5, last), min(j + 6, last), min(j + 7, last)
        w1, w2, w3 = weight * F(j1 > j), weight * F(j2 > j1), weight * F(j3 > j2)
        w4, w5, w6 = weight * F(j4 > j3), weight * F(j5 > j4), weight * F(j6 > j5)
        w7 = weight * F(j7 > j6)
        for i in range(rows):
            m0, m1 = plan_MN[j, i] * weight, plan_MN[j1, i] * w1
            m2, m3 = plan_MN[j2, i] * w2, plan_MN[j3, i] * w3
            m4, m5 = plan_MN[j4, i] * w4, plan_MN[j5, i] * w5
            m6, m7 = plan_MN[j6, i] * w6, plan_MN[j7, i] * w7
            for d in range(first_ND.shape[1]):
                u = first_ND[i, d] * _HUGE
                out_ND[i, d] += (
                    (_signed(u, second_MD[j, d], m0) + _signed(u, second_MD[j1, d], m1))
                    + (_signed(u, second_MD[j2, d], m2) + _signed(u, second_MD[j3, d], m3))
                ) + (
                    (_signed(u, second_MD[j4, d], m4) + _signed(u, second_MD[j5, d], m5))
                    + (_signed(u, second_MD[j6, d], m6) + _signed(u, second_MD[j7, d], m7))
                )


@_compiled
def softmin(cost_NM: Any, offsets_N: Any, reg: F, tops_M: Any, out_M: Any) -> None:
    """Write -reg log sum_i exp(offsets_i - cost_ij / reg), powers not below exp(-80) of the top."""
    rows, columns = cost_NM.shape
    inverse = F(1) / reg
    for j in range(columns):
        tops_M[j] = F(-np.inf)
        out_M[j] = F(0)
    for i in range(rows):
        for j in range(columns):
            tops_M[j] = max(tops_M[j], offsets_N[i] - cost_NM[i, j] * inverse)
    for i in range(rows):
        for j in range(columns):
            power = offsets_N[i] - cost_NM[i, j] * inverse - tops_M[j]
            out_M[j] += exp32(max(power, F(-80)))
    for j in range(columns):
        out_M[j] = (math.log(out_M[j]) + tops_M[j]) * -reg


@_compiled
def anneal(
    cost_NM: Any, cost_MN: Any, log_weights_N: Any, log_weights_M: Any, regs: Any, relaxations: Any
) -> Any:
    """Return both potentials after every update; a relaxation below 0 is an averaged update."""
    rows, columns = cost_NM.shape
    first_N, second_M = np.empty(rows, F), np.empty(columns, F)
    target_N, target_M = np.empty(rows, F), np.empty(columns, F)
    tops_N, tops_M = np.empty(rows, F), np.empty(columns, F)
    softmin(cost_MN, log_weights_M, regs[0], tops_N, first_N)
    softmin(cost_NM, log_weights_N, regs[0], tops_M, second_M)
    for k in range(regs.shape[0]):
        reg, relaxation = regs[k], relaxations[k]
        softmin(cost_MN, log_weights_M + second_M / reg, reg, tops_N, target_N)
        if relaxation < F(0):
            softmin(cost_NM, log_weights_N + first_N / reg, reg, tops_M, target_M)
            first_N = (first_N + target_N) * F(0.5)
            second_M = (second_M + target_M) * F(0.5)
        else:
            first_N = first_N + (target_N - first_N) * relaxation
            softmin(cost_NM, log_weights_N + first_N / reg, reg, tops_M, target_M)
            second_M = second_M + (target_M - second_M) * relaxation
    return first_N, second_M


@_compiled
def anneal_alone(cost_NN: Any, log_weights_N: Any, regs: Any) -> Any:
    """Return the potential of a cloud against itself, which is both, by averaged updates."""
    rows = cost_NN.shape[0]
    both_N, target_N, tops_N = np.empty(rows, F), np.empty(rows, F), np.empty(rows, F)
    softmin(cost_NN, log_weights_N, regs[0], tops_N, both_N)
    for k in range(regs.shape[0]):
        softmin(cost_NN, log_weights_N + both_N / regs[k], regs[k], tops_N, target_N)
        both_N = (both_N + target_N) * F(0.5)
    return both_N


@_compiled
def column_plan(  # noqa: C901 - four passes over one array
    cost_NM: Any, offsets_N: Any, reg: F, log_weights_M: Any, out_NM: Any
) -> None:
    """Write the plan whose columns sum to the second cloud's weights."""
    rows, columns = cost_NM.shape
    inverse = F(1) / reg
    tops_M, sums_M = np.empty(columns, F), np.empty(columns, F)
    for j in range(columns):
        tops_M[j] = F(-np.inf)
        sums_M[j] = F(0)
    for i in range(rows):
        for j in range(columns):
            tops_M[j] = max(tops_M[j], offsets_N[i] - cost_NM[i, j] * inverse)
    for i in range(rows):
        for j in range(columns):
            power = offsets_N[i] - cost_NM[i, j] * inverse - tops_M[j]
            out_NM[i, j] = exp32(max(power, F(-80)))
            sums_M[j] += out_NM[i, j]
    for j in range(columns):
        sums_M[j] = exp32(max(log_weights_M[j], F(-80))) / sums_M[j]
    for i in range(rows):
        for j in range(columns):
            out_NM[i, j] *= sums_M[j]
