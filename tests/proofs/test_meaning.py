"""What Coq is told that operations mean is what Python and torch do, on random numbers.

Each function runs as it is, on numbers that overflow and such that do not; Coq must compute the
same from the translation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from curator.accounting.cost import Cost, _round_up
from curator.accounting.orders import ORDERS
from curator.accounting.rule import BudgetRule, _weights
from curator.privacy.budget import Budget
from curator.sanitizer import averaged, lattice, outer, summed
from proofs import coq
from tests.proofs.copies import ROOT

pytestmark = [
    pytest.mark.skipif(
        coq.compiler() is None, reason="coqc is not installed: 'apt-get install coq' on Debian"
    ),
    pytest.mark.timeout(1800),
]

NUM_CASES = 12


def written(value: object) -> str:
    """Return a value as Coq writes it."""
    match value:
        case None:
            return "None"
        case bool():
            return str(value).lower()
        case int():
            return f"({value})"
        case Fraction():
            return f"({value.numerator} # {value.denominator})%Q"
        case list() | tuple():
            return f"[{'; '.join(map(written, value))}]"
        case _:
            raise TypeError(value)


def some(value: object) -> str:
    return "None" if value is None else f"(Some {written(value)})"


def unless_refused(make: Callable[[], int]) -> str:
    try:
        return some(make())
    except ValueError:
        return "None"


def lines(rng: random.Random) -> list[str]:
    """Return equations between what Coq computes and what Python has computed."""
    made = []
    extremes = [-(2**63), 2**63 - 1, 0, 2**31, -(2**31)]
    for _ in range(NUM_CASES):
        size = rng.choice([20, 2**23, 2**31, 2**40, 2**62])
        row = [rng.choice([rng.randint(-size, size), rng.choice(extremes)]) for _ in range(4)]
        rows = [row, [rng.randint(-size, size) for _ in row], [0] * len(row)]
        radius = rng.choice([1, rng.randint(1, size), 2**40 - 1])
        vector, matrix = torch.tensor(row), torch.tensor(rows)
        ask = f"{written(row)} {radius}"
        made += [
            f"squared_norm {ask} = {written(lattice.squared_norm(vector, radius))}",
            f"is_certified {ask} = {written(lattice.is_certified(vector, radius))}",
        ]
        ask = f"{written(rows)} {radius}"
        squares = summed._squared_integers(matrix, radius)
        critics = averaged._certified(matrix.unsqueeze(1), radius)
        made += [
            f"critics_certified {ask} = {written(critics)}",
            f"squared_integers {ask} = {written(squares.tolist())}",
        ]
        places = [rng.randrange(2) for _ in rows]
        certified = summed._certified_units(squares, torch.tensor(places), 2, min(radius, 2**31))
        ask = f"{written(squares.tolist())} {written(places)} 2 {min(radius, 2**31)}"
        made.append(f"units_certified {ask} = {written(certified.tolist())}")
        whole = [[rng.randint(-(2**17), 2**17) for _ in row] for _ in rows]
        radius = rng.choice([2**15, 2**17, 2**18])
        found = outer._is_certified(torch.tensor(whole, dtype=torch.float64), radius)
        ask = f"(rows_of {written(whole)}) {radius}"
        made.append(f"factors_certified {ask} = {written(found.flatten().tolist())}")
        made += radii(rng) + charges(rng)
    return [*made, *(weights(favourite) for favourite in ORDERS)]


def radii(rng: random.Random) -> list[str]:
    multiplier = rng.choice([rng.uniform(0.01, 3), 10 ** rng.uniform(-3, 7), 0.01, 1e6])
    given, balls = written(Fraction(multiplier)), rng.choice([0, 1, 2, 3])
    coarse = unless_refused(lambda: lattice.lattice_radius(multiplier, sensitivity_in_radii=balls))
    return [
        f"lattice_radius {given} {balls} = {coarse}",
        f"fine_radius {given} = {unless_refused(lambda: averaged.fine_radius(multiplier))}",
    ]


def charges(rng: random.Random) -> list[str]:
    def cost() -> Cost:
        kinds = rng.choice([(None, 0), (0,), (1,), (None, 0, 1)])
        signs = [rng.choice(kinds) for _ in ORDERS]
        return Cost(tuple(one and rng.randint(1, 2**62) for one in signs))

    def items(one: Cost) -> str:
        return f"[{'; '.join(map(some, one.units))}]"

    a, b, times = cost(), cost(), rng.choice([0, 1, 7, 10**9])
    rule = BudgetRule.register(Budget(epsilon=rng.uniform(0.1, 20), delta=1e-5))
    numbers = written(Fraction(rule.budget.epsilon))
    of_rule = f"{{| budget := {{| epsilon := {numbers} |}}; offsets := {written(rule.offsets)} |}}"
    rho = rng.choice([rng.uniform(0, 2), 0.0, 1e-300, math.inf, math.nan])
    told = "not_a_number" if math.isnan(rho) else "infinite"
    number = f"(finite {written(Fraction(rho))})" if math.isfinite(rho) else told
    return [
        f"is_zero {items(a)} = {written(a.is_zero)}",
        f"cost_add {items(a)} {items(b)} = {items(a + b)}",
        f"cost_mul {items(a)} {times} = Some {items(a * times)}",
        f"spent_units {of_rule} {items(a)} = {some(rule._spent_units(a))}",
        f"admits {of_rule} {items(a)} = {written(rule.admits(a))}",
        f"round_up {number} = {some(_round_up(rho))}",
    ]


def weights(favourite: float) -> str:
    found = written(_weights(favourite))
    return f"map Qred (weights {written(Fraction(favourite))}) = {found}"


def test_coq_computes_what_python_does(tmp_path: Path) -> None:
    coq.check(ROOT, tmp_path, ())
    equations = lines(random.Random(22))  # noqa: S311 - numbers to try
    assert len(equations) > 150
    text = ["From Coq Require Import ZArith List QArith.", "From Weir Require Import Python Code."]
    text += ["Import ListNotations.", "Open Scope Z_scope."]
    text += [f"Goal {one}. vm_compute. reflexivity. Qed." for one in equations]
    (tmp_path / "Meaning.v").write_text("\n".join(text))
    coq.compile_file(tmp_path, "Meaning")
