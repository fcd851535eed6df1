"""What is attacked: a mechanism with public parameters, and what its accountant claims."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from curator.accounting.pld import pld_epsilon
from curator.audit.canaries import CAPACITY, MAX_RECORDS, NUM_DEBIAS, NUM_SAMPLES, audit_facts
from curator.audit.names import TARGETS as TARGETS
from curator.mechanisms.catalogue import CataloguedMechanism, parse_mechanism
from curator.mechanisms.mechanism import SampledMechanism
from curator.privacy.event import PrivacyEvent

_NUM_PROJECTIONS = 18  # as many as coordinates, so that a row keeps about its whole length
_NUM_FEATURES = 2  # one frequency: a whole released block shows in the gradients of a few samples


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One mechanism with its parameters."""

    name: str
    mechanism: str
    parameters: Mapping[str, object] = field(hash=False)

    @property
    def parameters_json(self) -> str:
        """The parameters as they go over the wire."""
        return json.dumps(dict(self.parameters))

    def open(self) -> CataloguedMechanism:
        """Return the mechanism that the curator will run."""
        return parse_mechanism(self.mechanism, self.parameters_json, audit_facts("audit").space)

    @property
    def pays_per_step(self) -> bool:
        """Whether each step is a release of its own; else the run makes one."""
        return isinstance(self.open(), SampledMechanism)

    @property
    def event(self) -> PrivacyEvent:
        """The event of one release, which is one trial."""
        mechanism = self.open()
        return mechanism.step_event() if self.pays_per_step else mechanism.setup_event()

    def claim(self, delta: float) -> float:
        """Return the epsilon that the accountant states for one release.

        Args:
            delta: In (0, 1).
        """
        return pld_epsilon(self.event, 1, delta)


def make_target(name: str, noise_multiplier: float) -> Target:
    """Return one target.

    Args:
        name: One of `TARGETS`.
        noise_multiplier: Noise standard deviation over sensitivity.

    Returns:
        The target; its small clip norm makes every gradient reach the bound.

    Raises:
        ValueError: If there is no such target.
    """
    match name:
        case "dp-sinkhorn":
            return _sinkhorn(name, 1.0, noise_multiplier)
        case "dp-sinkhorn-half":
            return _sinkhorn(name, 0.5, noise_multiplier)
        case "dp-swd":
            return _sliced(name, noise_multiplier)
        case "mean-embedding":
            parameters: dict[str, object] = {
                "num_features": _NUM_FEATURES,
                "bandwidths": [2.0],
                "feature_seed": 1,
                "noise_multiplier": noise_multiplier,
                "count_scale": 0.1,
            }
            return Target(name=name, mechanism="mean-embedding", parameters=parameters)
        case _:
            msg = f"mechanism: expected one of {', '.join(TARGETS)}"
            raise ValueError(msg)


def _sinkhorn(name: str, rate: float, noise_multiplier: float) -> Target:
    parameters: dict[str, object] = {
        "sampling_rate": rate,
        "capacity": CAPACITY,
        "num_samples": NUM_SAMPLES,
        "num_debias": NUM_DEBIAS,
        "clip_norm": 0.01,
        "noise_multiplier": noise_multiplier,
        "reg": 5.0,
        "l1_weight": 1.0,
        "label_scale": 1.0,
        "schedule": "published",
    }
    return Target(name=name, mechanism="dp-sinkhorn", parameters=parameters)


def _sliced(name: str, noise_multiplier: float) -> Target:
    parameters: dict[str, object] = {
        "sampling_rate": 1.0,
        "capacity": CAPACITY,
        "num_samples": NUM_SAMPLES + NUM_DEBIAS,
        "num_projections": _NUM_PROJECTIONS,
        "clip_norm": 4.0,  # the norm of black and white; a clipped sample has no slope along itself
        "label_scale": 0.0,
        "origin": "grey",
        "noise_multiplier": noise_multiplier,
        "max_size": MAX_RECORDS,
        "max_records_per_unit": 1,
    }
    return Target(name=name, mechanism="dp-swd", parameters=parameters)
