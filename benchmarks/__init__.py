"""Measurements; each prints JSON rows. Run from the root: `python -m benchmarks.barrier`."""
