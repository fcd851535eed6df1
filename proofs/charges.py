"""The float that is charged of a Gaussian release is alpha / (2 z^2), but for less than 1e-10.

The code's own function runs on a monomial: a coefficient times a power of z, and how far rounding
may have moved it. Every operation of double precision moves it by a relative 2^-53 at most, as
nothing leaves the normal range for multipliers that are not refused. So the answer is about all of
them at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from proofs.copied import module
from proofs.subjects import ORDERS, RDP

_ROUNDING: Final = Fraction(1, 1 << 53)
_PROMISED: Final = Fraction(1, 10**10)  # `LoneEvent.rdp_bound`


@dataclass(frozen=True)
class Monomial:
    """coefficient * z^power * (1 + e) with |e| <= error."""

    coefficient: Fraction
    power: int = 0
    error: Fraction = Fraction(0)

    def _times(self, coefficient: Fraction, power: int, error: Fraction) -> Monomial:
        grown = (1 + self.error) * (1 + error) * (1 + _ROUNDING) - 1
        return Monomial(self.coefficient * coefficient, self.power + power, grown)

    def __mul__(self, other: float | Monomial) -> Monomial:
        """Return the rounded product."""
        by = other if isinstance(other, Monomial) else Monomial(Fraction(other))
        return self._times(by.coefficient, by.power, by.error)

    __rmul__ = __mul__

    def __truediv__(self, other: float | Monomial) -> Monomial:
        """Return the rounded quotient."""
        by = other if isinstance(other, Monomial) else Monomial(Fraction(other))
        return self._times(1 / by.coefficient, -by.power, by.error / (1 - by.error))

    def __rtruediv__(self, other: float) -> Monomial:
        """Return the rounded quotient of a number."""
        return Monomial(Fraction(other)) / self


def check(root: Path) -> list[str]:
    """Return what is wrong with the charge of a Gaussian release.

    Args:
        root: Of the repository, or of a copy.
    """
    rdp, orders = module(root / RDP), module(root / ORDERS).ORDERS
    lines = []
    for alpha in orders:
        found = rdp.gaussian_rdp(Monomial(Fraction(1), 1), alpha)
        if not isinstance(found, Monomial) or found.power != -2:
            return ["the divergence of a Gaussian is not as 1 / z^2"]
        if found.coefficient != Fraction(alpha) / 2:
            lines.append(f"the divergence at order {alpha:g} is not {alpha:g} / (2 z^2)")
        if found.error > _PROMISED:
            lines.append(f"rounding may move the divergence at order {alpha:g} by 1e-10")
    return lines
