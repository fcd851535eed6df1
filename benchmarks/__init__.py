"""Measurements: each prints JSON rows, and compares what it measures with a peer in the same run.

Every process of a measurement is tuned as the product's commands are, the peers too.
"""

from analyst.tune_process import tune_process

tune_process()
