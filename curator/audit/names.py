"""What can be attacked, and with which canaries, by name; apart from what carries it out."""

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
    "g-pate",
    "g-pate-votes",
    "gs-wgan-decoupled",
    "gs-wgan-mean",
    "gs-wgan-round-robin",
    "mean-embedding",
    "pate-gan",
)
