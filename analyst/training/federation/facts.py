"""The public facts and plans of several curators as one: they must agree on what an image is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyst.errors import FederationError
from analyst.facts import ImageFacts, PlanTotals


def joined_facts(facts: Mapping[str, ImageFacts]) -> ImageFacts:
    """Return the facts of all data sets together.

    Sizes are added; epsilon and delta are the largest of any curator and promise nothing: every
    curator keeps its own guarantee for its own people.

    Args:
        facts: By the name of the curator, in the public order.

    Returns:
        What all agree on; data sets with different names are joined by '+'.

    Raises:
        FederationError: If image shapes or classes differ.
    """
    (first_name, first), *others = facts.items()
    for name, other in others:
        if _what(other) != _what(first):
            message = (
                f"the curators' images differ: {_say(first)} at {first_name}, "
                f"{_say(other)} at {name}"
            )
            raise FederationError(
                message, "Name data sets of one shape, with the same classes in one order."
            )
    every = list(facts.values())
    return ImageFacts(
        name="+".join(dict.fromkeys(one.name for one in every)),
        channels=first.channels,
        height=first.height,
        width=first.width,
        classes=first.classes,
        nominal_size=sum(one.nominal_size for one in every),
        capacity=max(one.capacity for one in every),
        epsilon=max(one.epsilon for one in every),
        delta=max(one.delta for one in every),
    )


def joined_plan(
    plans: Sequence[PlanTotals], *, num_rounds: int, affordable_rounds: int
) -> PlanTotals:
    """Return the plan of a federation: epsilons are the largest, what remains is the least."""
    return PlanTotals(
        num_steps=num_rounds,
        affordable_steps=affordable_rounds,
        epsilon_after=max(plan.epsilon_after for plan in plans),
        epsilon_alone=max(plan.epsilon_alone for plan in plans),
        remaining=min(plan.remaining for plan in plans),
        fits=num_rounds <= affordable_rounds,
    )


def _what(facts: ImageFacts) -> tuple[object, ...]:
    return facts.channels, facts.height, facts.width, tuple(facts.classes)


def _say(facts: ImageFacts) -> str:
    shape = f"{facts.channels}x{facts.height}x{facts.width}"
    return f"'{facts.name}' of {shape} with classes {', '.join(facts.classes)}"
