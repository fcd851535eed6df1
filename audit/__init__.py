"""Attack the curator from outside: a distinguishing game whose score bounds epsilon from below.

A package of its own: it patches mechanisms and builds private values of public canaries, which no
server may. It asks as an analyst does, by the analyst's client. What can be attacked, and with
which canaries, is here by name, apart from what carries it out.
"""

from __future__ import annotations

CANARIES = ("flip", "crowd", "black", "white", "adversarial", "one-more", "empty", "failing")
TARGETS = (
    "adversarial-dp-sinkhorn",
    "dp-cgan",
    "dp-merf-ae",
    "dp-merf-ae-training",
    "dp-sinkhorn",
    "dp-sinkhorn-half",
    "dp-swd",
    "dp-swd-features",
    "feature-statistics",
    "g-pate",
    "g-pate-votes",
    "gs-wgan-decoupled",
    "gs-wgan-mean",
    "gs-wgan-round-robin",
    "linear-teacher",
    "mean-embedding",
    "pate-gan",
    "score",
    "votes",
)
ONE_RUN_TARGETS = ("dp-cgan", "dp-sinkhorn", "mean-embedding")
