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


@_compiled
def l1_distances(first_ND: Any, second_MD: Any, out_NM: Any) -> None:
    """Write the sum of |u - v| over pixels for each pair."""
    for i in range(first_ND.shape[0]):
        for j in range(second_MD.shape[0]):
            total = F(0)
            for d in range(first_ND.shape[1]):
                total += abs(first_ND[i, d] - second_MD[j, d])
            out_NM[i, j] = total


@_compiled
def sign_sums(plan_NM: Any, first_ND: Any, second_MD: Any, out_ND: Any) -> None:
    """Write sum_j plan_ij sign(u_i - v_j), sign(0) being 0."""
    for i in range(first_ND.shape[0]):
        for d in range(first_ND.shape[1]):
            out_ND[i, d] = F(0)
        for j in range(second_MD.shape[0]):
            mass = plan_NM[i, j]
            for d in range(first_ND.shape[1]):
                u = first_ND[i, d]
                v = second_MD[j, d]
                out_ND[i, d] += (mass if u > v else F(0)) - (mass if u < v else F(0))


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
