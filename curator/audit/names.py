"""What can be attacked, and with which canaries, by name; apart from what carries it out."""

from __future__ import annotations

CANARIES = ("flip", "black", "white", "adversarial", "one-more", "empty", "failing")
TARGETS = ("dp-sinkhorn", "dp-sinkhorn-half", "dp-swd", "mean-embedding")
