"""What the proofs are about: functions of the code, their names in Coq, and the theorems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proofs.translate import Function

ORDERS: Final = "curator/accounting/orders.py"
GAUSSIAN: Final = "curator/sanitizer/gaussian.py"
LATTICE: Final = "curator/sanitizer/lattice.py"
AVERAGED: Final = "curator/sanitizer/averaged.py"
OUTER: Final = "curator/sanitizer/outer.py"
SUMMED: Final = "curator/sanitizer/summed.py"
NUMBERS: Final = "curator/privacy/event_numbers.py"
BATCHES: Final = "curator/privacy/batches.py"
RDP: Final = "curator/accounting/rdp.py"
SAMPLED_EVENT: Final = "curator/accounting/events/sampled_gaussian.py"
SAMPLED_RDP: Final = "curator/accounting/sampled_rdp.py"
GAUSSIAN_EVENT: Final = "curator/accounting/events/gaussian.py"
CLIPPED: Final = "curator/sanitizer/clipped.py"
BOOK: Final = "curator/ledger/book.py"
STATES: Final = "curator/ledger/datasets_and_runs.py"
COST: Final = "curator/accounting/cost.py"
RULE: Final = "curator/accounting/rule.py"

CONSTANTS: Final = (
    (ORDERS, "ORDERS", "ORDERS"),
    (NUMBERS, "MIN_NOISE_MULTIPLIER", "MIN_NOISE_MULTIPLIER"),
    (NUMBERS, "MAX_NOISE_MULTIPLIER", "MAX_NOISE_MULTIPLIER"),
    (LATTICE, "LATTICE_VARIANCE", "LATTICE_VARIANCE"),
    (LATTICE, "_CHUNK", "CHUNK"),
    (AVERAGED, "FINE_STD", "FINE_STD"),
    (AVERAGED, "MAX_COORDINATES", "MAX_COORDINATES"),
    (AVERAGED, "_HALF", "HALF"),
    (SUMMED, "_MAX_FEATURES", "MAX_FEATURES"),
    (OUTER, "LEFT_RADIUS", "LEFT_RADIUS"),
    (OUTER, "RIGHT_RADIUS", "RIGHT_RADIUS"),
    (OUTER, "_BEYOND", "BEYOND"),
    (COST, "UNIT", "UNIT"),
    (COST, "_INFLATION", "INFLATION"),
    (RULE, "_FAVOURITE_WEIGHT", "FAVOURITE_WEIGHT"),
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
    _function(OUTER, "_is_certified", "factors_certified", "doubles", "Z"),
    _function(COST, "Cost.is_zero", "is_zero", "Cost"),
    _function(COST, "Cost.__add__", "cost_add", "Cost", "Cost"),
    _function(COST, "Cost.__mul__", "cost_mul", "Cost", "Z"),
    _function(COST, "_round_up", "round_up", "float"),
    _function(RULE, "BudgetRule._spent_units", "spent_units", "BudgetRule", "Cost"),
    _function(RULE, "BudgetRule.admits", "admits", "BudgetRule", "Cost"),
    _function(RULE, "_weights", "weights", "Q"),
)
"""What `translate.py` writes in Coq, in an order in which none is used before it is defined."""

THEOREMS: Final = {
    "Certificate": (
        "lattice_radius_sound",
        "fine_radius_sound",
        "is_certified_exact",
        "critics_certified_exact",
        "units_certified_exact",
        "sum_in_any_order",
        "factors_certified_exact",
    ),
    "Sums": ("sums_pairs", "sums_reindex", "sums_both"),
    "DiscreteGaussian": ("theta_largest_at_zero", "masses_sum_to_one", "gaussian_renyi"),
    "Filter": ("admits_some_order", "weighted_orders_are_a_filter", "filter_of_events"),
    "Ledger": (
        "round_up_sound",
        "round_up_refuses",
        "cost_mul_adds",
        "fewer_steps_cost_less",
        "weights_sum_to_one",
        "the_ledger_keeps_its_promise",
    ),
    "Release": ("certified_release", "certified_sum"),
    "Sampled": ("sampled_release", "certified_sample"),
    "Sampler": ("coordinates_add_up", "releases_add_up", "drawn_instead"),
    "Charged": ("rounded_charge", "certified_release_is_charged", "certified_sum_is_charged"),
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
    *_subjects(LATTICE, "LATTICE_VARIANCE lattice_radius", "coq/Certificate.v", "coq/Release.v"),
    *_subjects(LATTICE, "_CHUNK squared_norm is_certified", "coq/Certificate.v", "coq/Release.v"),
    *_subjects(CLIPPED, "release_clipped _lattice_point", "coq/Release.v"),  # ask and add noise
    *_subjects(AVERAGED, "FINE_STD MAX_COORDINATES _HALF", "coq/Certificate.v"),
    *_subjects(AVERAGED, "fine_radius _certified", "coq/Certificate.v"),
    *_subjects(AVERAGED, "release_critic_mean", "coq/Certificate.v"),  # refuses what is longer
    *_subjects(SUMMED, "_MAX_FEATURES _squared_integers", "coq/Certificate.v"),
    *_subjects(SUMMED, "_certified_units", "coq/Certificate.v"),
    *_subjects(SUMMED, "release_class_sums", "coq/Certificate.v"),  # refuses what is longer
    *_subjects(OUTER, "LEFT_RADIUS RIGHT_RADIUS _BEYOND", "coq/Certificate.v"),
    *_subjects(OUTER, "_is_certified _integers", "coq/Certificate.v"),  # the latter cuts to _BEYOND
    *_subjects(BATCHES, "ImageSpace.__post_init__", "coq/Certificate.v"),  # how many classes
    *_subjects(GAUSSIAN, "_STD _STRIDE _TABLE_BITS _DIGITS one_sided_cdf", "table.py"),
    *_subjects(GAUSSIAN, "inversion_entries _tables invert _break_ties", "table.py"),
    *_subjects(GAUSSIAN, "_TOP_BITS _WORD_BITS _GUIDE_BITS _GUIDE_SHIFT", "table.py"),
    *_subjects(GAUSSIAN, "discrete_gaussian", "table.py"),
    *_subjects(ORDERS, "ORDERS", "coq/Charged.v", "coq/Ledger.v", "offsets.py"),
    *_subjects(COST, "UNIT Cost.zero Cost.is_zero Cost.__add__", "coq/Filter.v"),
    *_subjects(COST, "_INFLATION _round_up event_cost Cost.__mul__", "coq/Ledger.v"),
    *_subjects(RULE, "BudgetRule._spent_units BudgetRule.admits", "coq/Filter.v"),
    *_subjects(RULE, "_FAVOURITE_WEIGHT _weights", "coq/Ledger.v", "offsets.py"),
    *_subjects(RULE, "BudgetRule.register _delta _times", "offsets.py"),
    *_subjects(RULE, "IMPLEMENTATION_SLACK", "offsets.py", "coq/Sampler.v"),
    *_subjects(RULE, "_CONTEXT _offset _units_above", "offsets.py"),
    *_subjects(RDP, "gaussian_rdp", "charges.py", "coq/Charged.v"),
    *_subjects(GAUSSIAN_EVENT, "GaussianEvent.rdp", "charges.py"),
    *_subjects(SAMPLED_EVENT, "sampled_gaussian_rdp", "coq/Sampled.v"),  # the formula, in floats
    *_subjects(SAMPLED_RDP, "log_sampled_excess", "coq/Sampled.v"),
    # where the ledger asks the rule: what `admitted` and `charged` assume
    *_subjects(BOOK, "Book._open Book._check_charge account_of", "coq/Ledger.v"),
    *_subjects(STATES, "RunOpening.declared RunState.spent_uses", "coq/Ledger.v"),
    *_subjects(STATES, "RunState.reserved_uses DatasetState.cap_rule", "coq/Ledger.v"),
)
"""All that a change of should lead somebody to look at a proof again."""
