"""Cells that are accounting alone: what papers claim and what holds, and the bounds of DP-SWD."""

from __future__ import annotations

import math
import time
from typing import Any

from benchmarks.papers.accounting.cgan import CganBounds, PublishedCgan, cgan_bounds
from benchmarks.papers.accounting.hidden_critic import (
    HiddenCritic,
    HiddenCriticBounds,
    hidden_critic_bounds,
)
from benchmarks.papers.accounting.looks import LooksBounds, StoredSums, looks_bounds
from benchmarks.papers.accounting.one_ledger import PartsBounds, ThreeParts, parts_bounds
from benchmarks.papers.accounting.settings import Setting, read_setting
from benchmarks.papers.accounting.sliced_bounds import paper_bounds
from benchmarks.papers.accounting.votes import PublishedVotes, afforded_votes
from benchmarks.papers.rows import Measured
from benchmarks.papers.work import Work
from curator.accounting.epsilon_alone import pld_epsilon, renyi_epsilon
from curator.accounting.events.sliced_gaussian import (
    SampledSlicedGaussianEvent,
    SlicedGaussianEvent,
)
from curator.privacy.event_numbers import SamplingRate


def make_bounds(work: Work) -> Measured:
    """Return the noise that epsilon needs by each argument, and the epsilon of the paper's noise.

    Noise is over what a row may move before it is projected; without a stated noise, the epsilons
    are those of the noise that Bernstein's inequality asks for.
    """
    given, started = work.settings, time.monotonic()
    noise = given.get("noise")
    base = SlicedGaussianEvent(
        dimension=given["dimension"],
        num_projections=given["num_projections"],
        noise_multiplier=noise or 1.0,
    )
    event = SampledSlicedGaussianEvent(
        sampling_rate=SamplingRate.at_least(given["sampling_rate"]),
        base=base,
        overflow_probability=0.0,
    )
    epsilon, delta = float(given["epsilon"]), float(given["delta"])
    bounds = paper_bounds(event, given["num_steps"], epsilon, delta)
    values = {
        "noise_bernstein": bounds.bernstein_noise,
        "noise_central_limit": bounds.central_limit_noise,
        "noise_exact": bounds.sufficient_noise,
    }
    if noise is not None:
        values |= {
            "epsilon_bernstein": bounds.bernstein_epsilon,
            "epsilon_central_limit": bounds.central_limit_epsilon,
            "epsilon_exact": renyi_epsilon(event, given["num_steps"], delta),
        }
    return Measured(values=_short(values), seconds=round(time.monotonic() - started, 1))


def make_claim(work: Work) -> Measured:
    """Return what a published setting costs."""
    given, started = work.settings["setting"], time.monotonic()
    setting = read_setting(given, {})
    values = _short(_costs(setting, given["num_steps"]))
    return Measured(values=values, seconds=round(time.monotonic() - started, 1))


def _costs(setting: Setting, steps: int) -> dict[str, Any]:
    delta = setting.run.budget.delta
    match setting.told:
        case HiddenCritic() as critic:
            return _critic(hidden_critic_bounds(critic, steps, delta))
        case PublishedVotes() as votes:
            afforded = afforded_votes(votes, setting.run.budget.epsilon, delta)
            return {"votes": afforded.num_votes, "batches": afforded.num_batches}
        case PublishedCgan() as cgan:
            return _cgan(cgan_bounds(cgan, steps, delta))
        case StoredSums() as sums:
            return _looks(looks_bounds(sums, delta))
        case ThreeParts() as parts:
            return _parts(parts_bounds(parts, setting.run.budget.epsilon, delta))
        case None:
            event = setting.run.step
            return {
                "renyi": renyi_epsilon(event, steps, delta),
                "losses": pld_epsilon(event, steps, delta),
            }


def _critic(bounds: HiddenCriticBounds) -> dict[str, Any]:
    least = bounds.least if bounds.is_drawn_in_secret else bounds.most
    return {"least": least, "most": bounds.most, "in_rounds": bounds.in_public_rounds}


def _cgan(bounds: CganBounds) -> dict[str, Any]:
    return {"reported": bounds.reported, "renyi": bounds.renyi, "losses": bounds.losses}


def _looks(bounds: LooksBounds) -> dict[str, Any]:
    return {
        "reported": bounds.reported,
        "renyi": bounds.renyi,
        "losses": bounds.losses,
        "most": bounds.most,
    }


def _parts(bounds: PartsBounds) -> dict[str, Any]:
    return {"reported": bounds.reported, "renyi": bounds.renyi, "losses": bounds.losses}


def _short(values: dict[str, Any]) -> dict[str, float | None]:
    """Return four digits of each."""
    return {
        name: None if value is None or math.isnan(value) else float(f"{value:.4g}")
        for name, value in values.items()
    }
