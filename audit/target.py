"""What is attacked: a mechanism with public parameters, and what its accountant claims."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from audit.canaries import Pair, audit_facts
from curator.accounting.epsilon_alone import pld_epsilon
from curator.accounting.events.base import PrivacyEvent
from curator.accounting.events.gaussian import GaussianEvent
from curator.accounting.events.none import NoEvent
from curator.mechanisms.base import Kind, ServedMechanism
from curator.mechanisms.catalogue import parse_mechanism
from curator.privacy.batches import Samples

_SPACE = audit_facts("audit").space

Score = Literal["linear", "mean-difference", "discriminant"]
"""How the direction of a score is found; see `direction.py`."""

Statistic = Callable[[npt.NDArray[np.float64]], float]
"""The score of one trial, given all numbers of its answers."""


def first_rows(pair: Pair, num_rows: int | None) -> Samples:
    """Return what an attacker sends who has nothing better: the images of the canary.

    Args:
        pair: The canary.
        num_rows: As many as the mechanism takes; None for all.
    """
    return Samples(
        images_ND=pair.samples.images_ND[:num_rows], labels_N=pair.samples.labels_N[:num_rows]
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One mechanism with its parameters, and how it is attacked.

    Attributes:
        name: Of the target.
        mechanism: Wire name.
        parameters: Public parameters of a run.
        num_steps: Of one trial, where a run keeps a state; a step is a trial otherwise.
        parts: Which parameter says how many networks there are, of which a record changes one.
        score: How the direction of a score is found.
        sends: What the attacker asks at every step.
        statistic: Where a trial is a whole release, downloaded: makes the score from the parameters
            and the canary. Otherwise a score is a projection.
    """

    name: str
    mechanism: str
    parameters: Mapping[str, object] = field(hash=False)
    num_steps: int = 1
    parts: str | None = None
    score: Score = "linear"
    sends: Callable[[Pair, int | None], Samples] = first_rows
    statistic: Callable[[Mapping[str, object], Pair], Statistic] | None = None

    @property
    def parameters_json(self) -> str:
        """The parameters as they go over the wire."""
        return json.dumps(dict(self.parameters))

    @property
    def num_parts(self) -> int:
        """Networks of which a record changes one at most; none if 0."""
        return int(str(self.parameters[self.parts])) if self.parts else 0

    @property
    def pays_per_step(self) -> bool:
        """Whether each step is a release of its own, which is a trial; else a whole run is one."""
        return self.open().kind is Kind.SAMPLED

    def suits(self, pair: Pair) -> bool:
        """Return whether a canary has a meaning: shards copy records, which none can make fail."""
        return not (pair.fails and self.parts)

    def open(self) -> ServedMechanism:
        """Return the mechanism that the curator will run."""
        return parse_mechanism(self.mechanism, self.parameters_json, _SPACE)

    def samples(self, pair: Pair) -> Samples:
        """Return what the attacker asks at every step."""
        return self.sends(pair, self.open().rows_per_step)

    def claim(self, delta: float) -> float:
        """Return the epsilon that the accountant states for one trial.

        Args:
            delta: In (0, 1).
        """
        return claimed_epsilon(self.open(), self.num_steps, delta)


def claimed_epsilon(mechanism: ServedMechanism, num_steps: int, delta: float) -> float:
    """Return the epsilon that the accountant states for one run of declared steps.

    Args:
        mechanism: With the parameters of the run.
        num_steps: Declared.
        delta: In (0, 1).
    """
    setup, step = mechanism.setup_event(), mechanism.step_event()
    if isinstance(step, NoEvent):
        return pld_epsilon(setup, 1, delta)
    if isinstance(setup, NoEvent):
        return pld_epsilon(step, num_steps, delta)
    return pld_epsilon(_together(setup, step, num_steps), 1, delta)


def _together(setup: PrivacyEvent, step: PrivacyEvent, num_steps: int) -> GaussianEvent:
    """Return the one Gaussian that a Gaussian setup and Gaussian steps compose to.

    Raises:
        TypeError: If one of them is another event.
    """
    if not isinstance(setup, GaussianEvent) or not isinstance(step, GaussianEvent):
        msg = "a setup and steps that are both paid must be Gaussian"
        raise TypeError(msg)
    losses = setup.noise_multiplier**-2 + num_steps * step.noise_multiplier**-2
    return GaussianEvent(noise_multiplier=(1 - 1e-12) / math.sqrt(losses))
