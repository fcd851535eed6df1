"""The analyst: owns the generator and the optimizer, and trains against a remote curator.

with analyst.connect("curator.example.org:50051", credentials="me.json") as barrier:
    run = barrier.open_run("mnist", "dp-sinkhorn", parameters, num_steps=2000)
    run.backward(images, labels)  # instead of loss.backward()
"""

from analyst.client import Barrier, Run, connect

__all__ = ["Barrier", "Run", "connect"]
