"""The least noise with which so many steps stay within an epsilon: the third question of a plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from typing import Final

from curator.accounting.calibrate import least_noise_near
from curator.errors import MalformedRequest, Refusal
from curator.mechanisms.base import ServedMechanism
from curator.mechanisms.catalogue import MAX_PARAMETER_BYTES
from curator.planning.pricing import Allowance, Price

LEAST: Final = 0.01
MOST: Final = 10_000.0
"""Beyond it no lattice is left for the images, and nothing could be learned."""

_DIGITS: Final = Context(prec=4, rounding=ROUND_CEILING)
_FIELD: Final = "noise_multiplier"
_TOLERANCE: Final = 1e-4


def with_noise(parameters_json: str, noise_multiplier: float) -> str:
    """Return parameters with another noise.

    Args:
        parameters_json: As a request has them; what is too long or no JSON object is returned as it
            is, for whoever reads it next to refuse.
        noise_multiplier: The new one.
    """
    if len(parameters_json) > MAX_PARAMETER_BYTES:
        return parameters_json
    try:
        table = json.loads(parameters_json)
    except (ValueError, RecursionError):
        return parameters_json
    if not isinstance(table, dict):
        return parameters_json
    return json.dumps({**table, _FIELD: noise_multiplier})


def noise_for(
    allowance: Allowance,
    parse: Callable[[float], ServedMechanism],
    num_steps: int,
    epsilon: float,
    *,
    share: float = 1.0,
    guess: float = 1.0,
) -> float:
    """Return the least noise multiplier, to four digits, that keeps steps within an epsilon.

    Args:
        allowance: Of the caller on the data set; share and policy are kept too.
        parse: The mechanism with a noise multiplier.
        num_steps: Declared steps.
        epsilon: The data set's total may reach it.
        share: Of what is left up to there, the part that the steps may cost.
        guess: Where to look first.

    Raises:
        MalformedRequest: If `epsilon` is not a budget, or no noise that the mechanism takes is
            enough.
    """
    target, own = allowance.target(epsilon), allowance.share

    def enough(noise_multiplier: float) -> bool:
        try:
            price = Price.of(parse(noise_multiplier))
        except MalformedRequest:  # so much noise that the mechanism does not take it
            return True
        cost = price.times(num_steps).over(share)
        if not target.admits(allowance.reserved + cost):
            return False
        if own is not None and not own.rule.admits(own.reserved + cost):
            return False
        return allowance.by_policy(price, num_steps) >= num_steps

    try:
        least = least_noise_near(guess, enough, tolerance=_TOLERANCE, most=MOST)
    except ValueError:
        msg = "no amount of noise makes these steps affordable"
        raise MalformedRequest(msg, "num_steps") from None
    allowed = max(least, allowance.policy.min_noise_multiplier or LEAST)
    found = min(MOST, float(_DIGITS.create_decimal(Decimal(allowed))))
    parse(found)  # says in its own words why the mechanism does not take it
    return found


def noise_that_would_do(
    allowance: Allowance, parse: Callable[[float], ServedMechanism], num_steps: int, guess: float
) -> float | None:
    """Return the least noise with which the rest of the budget affords so many steps.

    Returns:
        None if no noise is enough.
    """
    try:
        return noise_for(allowance, parse, num_steps, allowance.rule.budget.epsilon, guess=guess)
    except (MalformedRequest, Refusal):
        return None
