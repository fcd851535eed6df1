"""What is attacked in one run, and how: canaries, questions, a score of each canary's coin.

A score is an estimate of the log odds that its canary is in. Public numbers alone make it; the
coins are not seen.

Shape legend: M canaries, V numbers of what was observed, T steps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from analyst.client import Barrier, Run
from curator.data.images import LabelledImages
from curator.mechanisms.base import ServedMechanism
from curator.mechanisms.catalogue import parse_mechanism
from curator.privacy.facts import DatasetFacts

Vector = npt.NDArray[np.float64]
Coins = npt.NDArray[np.bool_]

MAX_LEVEL = 255
_COIN_VARIANCE = 0.25


class OneRunAttack(Protocol):
    """One mechanism with m canaries, each as strong as the others."""

    @property
    def mechanism(self) -> str:
        """Wire name."""
        ...

    @property
    def num_canaries(self) -> int:
        """M, all of whom a coin decides about; there are no other records."""
        ...

    @property
    def num_steps(self) -> int:
        """Declared steps of the run."""
        ...

    @property
    def shared(self) -> str:
        """What canaries take from each other, in words, for who asks why an attack is weak."""
        ...

    def facts(self, name: str) -> DatasetFacts:
        """Return the public facts of the data set."""
        ...

    def parameters(self, noise_multiplier: float) -> Mapping[str, object]:
        """Return the public parameters of the run."""
        ...

    def canaries(self) -> LabelledImages:
        """Return all canaries."""
        ...

    def observe(self, barrier: Barrier, run: Run) -> Vector:
        """Return everything that the run answers, all its steps taken."""
        ...

    def scores(self, observed: Vector, noise_multiplier: float) -> Vector:
        """Return a score for each canary, under the noise that is claimed."""
        ...

    def simulated(
        self, coins: Coins, noise_multiplier: float, claimed: float, rng: np.random.Generator
    ) -> Vector:
        """Return scores as they would be if the curator did the least that it must.

        Args:
            coins: Which canaries are in.
            noise_multiplier: Of the noise that is added.
            claimed: The one that is claimed, and that the attacker believes.
            rng: For all noise.
        """
        ...


def open_mechanism(attack: OneRunAttack, noise_multiplier: float) -> ServedMechanism:
    """Return the mechanism that the curator will run."""
    text = json.dumps(dict(attack.parameters(noise_multiplier)))
    return parse_mechanism(attack.mechanism, text, attack.facts("audit").space)


def canary_facts(name: str, side: int, num_classes: int, sizes: Mapping[str, Any]) -> DatasetFacts:
    """Return public facts of grey square images with the largest budget that there is.

    Args:
        name: Of the data set.
        side: Pixels on a side.
        num_classes: How many classes.
        sizes: The declared sizes and the sampling rate.
    """
    return DatasetFacts.model_validate(
        {
            "name": name,
            "channels": 1,
            "height": side,
            "width": side,
            "max_level": MAX_LEVEL,
            "classes": tuple(str(number) for number in range(num_classes)),
            "relation": "add-or-remove",
            "unit": "record",
            "epsilon": 20.0,
            "delta": 1e-2,
            **sizes,
        }
    )


def public_bits(name: str, count: int) -> npt.NDArray[np.bool_]:
    """Return bits of a public hash: SHAKE-256 of a name."""
    digest = hashlib.shake_256(f"weir one-run audit|{name}".encode()).digest(-(-count // 8))
    return np.unpackbits(np.frombuffer(digest, dtype=np.uint8), count=count).astype(np.bool_)


def black_and_white(light: npt.NDArray[np.bool_], side: int, num_classes: int) -> LabelledImages:
    """Return images of black and white pixels, labelled in turn.

    Args:
        light: Which pixels are white, a row an image.
        side: Pixels on a side.
        num_classes: How many classes.
    """
    levels = (light * MAX_LEVEL).astype(np.uint8).reshape(-1, 1, side, side)
    return LabelledImages(levels=levels, labels=np.arange(len(levels)) % num_classes)


def linear_scores(signatures_MV: Vector, observed_V: Vector, noise_std: float) -> Vector:
    """Return log odds where what is observed is a sum of signatures, and Gaussian noise.

    The best linear estimate of all coins together: what a canary shares with others is explained by
    them as far as they can be told. For orthogonal signatures these are the exact log odds.

    Args:
        signatures_MV: What each canary adds.
        observed_V: The noised sum.
        noise_std: Of each number.
    """
    signatures_MV, observed_V = signatures_MV / noise_std, observed_V / noise_std
    gram_MM = signatures_MV @ signatures_MV.T
    centred_M = signatures_MV @ observed_V - gram_MM.sum(axis=1) / 2
    precision_MM = gram_MM + np.eye(len(gram_MM)) / _COIN_VARIANCE
    factor = cho_factor(precision_MM, lower=True, overwrite_a=True)
    estimates_M = cho_solve(factor, centred_M)
    errors_M = np.diag(cho_solve(factor, np.eye(len(gram_MM))))  # posterior variances
    gains_M = 1 - errors_M / _COIN_VARIANCE
    return np.asarray(estimates_M / np.maximum(errors_M, np.finfo(np.float64).tiny) * (gains_M > 0))


def measured_noise(signatures_MV: Vector, observed_V: Vector) -> float:
    """Return the noise in the directions that no signature has any part of.

    Were there less noise than is claimed, whoever believes the claim would overlook what could be
    seen.

    Args:
        signatures_MV: Fewer than numbers, none of them a sum of others.
        observed_V: The noised sum.
    """
    basis_VM, _ = np.linalg.qr(signatures_MV.T)
    rest_V = observed_V - basis_VM @ (basis_VM.T @ observed_V)
    return float(np.sqrt(np.square(rest_V).sum() / (len(rest_V) - basis_VM.shape[1])))


def alone(coins: Coins, separation: float, rng: np.random.Generator) -> Vector:
    """Return log odds where each canary is seen through noise of its own, undisturbed.

    Args:
        coins: Which are in.
        separation: What a coin moves, in standard deviations of the noise.
        rng: Of the noise.
    """
    return separation * (separation * (coins - 0.5) + rng.standard_normal(len(coins)))
