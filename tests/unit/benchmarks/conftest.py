"""Benchmarks compute as the curator does; what they set for that is set back after a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def torch_as_before() -> Iterator[None]:
    """Other tests need subnormal numbers, and as many threads as there were."""
    threads = torch.get_num_threads()
    yield
    torch.set_flush_denormal(False)
    torch.set_num_threads(threads)
