"""What the proofs are about: functions of the code, their names in Coq, and the theorems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proofs.translate import Function

GAUSSIAN: Final = "curator/sanitizer/gaussian.py"
LATTICE: Final = "curator/sanitizer/lattice.py"
AVERAGED: Final = "curator/sanitizer/averaged.py"
SUMMED: Final = "curator/sanitizer/summed.py"
NUMBERS: Final = "curator/privacy/event_numbers.py"
BATCHES: Final = "curator/privacy/batches.py"

CONSTANTS: Final = (
    (NUMBERS, "MIN_NOISE_MULTIPLIER", "MIN_NOISE_MULTIPLIER"),
    (NUMBERS, "MAX_NOISE_MULTIPLIER", "MAX_NOISE_MULTIPLIER"),
    (LATTICE, "LATTICE_VARIANCE", "LATTICE_VARIANCE"),
    (LATTICE, "_CHUNK", "CHUNK"),
    (AVERAGED, "FINE_STD", "FINE_STD"),
    (AVERAGED, "MAX_COORDINATES", "MAX_COORDINATES"),
    (AVERAGED, "_HALF", "HALF"),
    (SUMMED, "_MAX_FEATURES", "MAX_FEATURES"),
)
"""Path, name, and name in Coq."""


def _function(path: str, name: str, coq: str, *types: str) -> Function:
    return Function(path=path, name=name, coq=coq, types=types)


FUNCTIONS: Final = (
    _function(NUMBERS, "check_noise_multiplier", "check_noise_multiplier", "Q"),
    _function(LATTICE, "lattice_radius", "lattice_radius", "Q", "Z"),
    _function(LATTICE, "squared_norm", "squared_norm", "vector", "Z"),
    _function(LATTICE, "is_certified", "is_certified", "vector", "Z"),
    _function(AVERAGED, "fine_radius", "fine_radius", "Q"),
    _function(AVERAGED, "_certified", "critics_certified", "matrix", "Z"),
    _function(SUMMED, "_squared_integers", "squared_integers", "matrix", "Z"),
    _function(SUMMED, "_certified_units", "units_certified", "vector", "vector", "Z", "Z"),
)
"""What `translate.py` writes in Coq, in an order in which none is used before it is defined."""

THEOREMS: Final = {
    "Sums": ("sums_pairs",),
    "DiscreteGaussian": ("theta_largest_at_zero", "masses_sum_to_one", "gaussian_renyi"),
    "Certificate": (
        "lattice_radius_sound",
        "fine_radius_sound",
        "is_certified_exact",
        "critics_certified_exact",
        "units_certified_exact",
    ),
}
"""By file; a file may use those above it."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A function or a constant that proofs are about, and where these are.

    Attributes:
        path: Of its file, below the root.
        name: With the class, if it is a method.
        proofs: Files below `proofs/`.
    """

    path: str
    name: str
    proofs: tuple[str, ...]


def _subjects(path: str, names: str, *proofs: str) -> tuple[Subject, ...]:
    return tuple(Subject(path=path, name=name, proofs=proofs) for name in names.split())


READ: Final = (
    *_subjects(NUMBERS, "MIN_NOISE_MULTIPLIER MAX_NOISE_MULTIPLIER", "coq/Certificate.v"),
    *_subjects(NUMBERS, "check_noise_multiplier", "coq/Certificate.v"),
    *_subjects(LATTICE, "LATTICE_VARIANCE _CHUNK lattice_radius", "coq/Certificate.v"),
    *_subjects(LATTICE, "squared_norm is_certified", "coq/Certificate.v"),
    *_subjects(AVERAGED, "FINE_STD MAX_COORDINATES _HALF", "coq/Certificate.v"),
    *_subjects(AVERAGED, "fine_radius _certified", "coq/Certificate.v"),
    *_subjects(AVERAGED, "release_critic_mean", "coq/Certificate.v"),  # asks for the length
    *_subjects(SUMMED, "_MAX_FEATURES _squared_integers", "coq/Certificate.v"),
    *_subjects(SUMMED, "_certified_units", "coq/Certificate.v"),
    *_subjects(SUMMED, "release_class_sums", "coq/Certificate.v"),  # asks for the length
    *_subjects(GAUSSIAN, "_STD _STRIDE _TABLE_BITS _DIGITS one_sided_cdf", "table.py"),
    *_subjects(GAUSSIAN, "inversion_entries _tables invert _break_ties", "table.py"),
    *_subjects(GAUSSIAN, "_TOP_BITS _WORD_BITS _GUIDE_BITS _GUIDE_SHIFT", "table.py"),
    *_subjects(GAUSSIAN, "discrete_gaussian", "table.py"),
    *_subjects(BATCHES, "ImageSpace.__post_init__", "coq/Certificate.v"),  # how many classes
)
"""All that a change of should lead somebody to look at a proof again."""
