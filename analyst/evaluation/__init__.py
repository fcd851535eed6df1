"""Evaluation on public data: nothing is ever chosen by a test set."""
