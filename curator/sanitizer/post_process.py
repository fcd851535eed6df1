"""Functions from releases and public values to releases; none ever sees a private tensor."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from curator.privacy.release import FloatBlock, LatticeBlock, Release


def release_values(release: Release) -> Tensor:
    """Return the released numbers.

    Returns:
        float64 values, the blocks joined along the first axis.
    """
    parts = []
    for block in release.blocks:
        match block:
            case LatticeBlock():
                parts.append(block.integers.to(torch.float64) * block.grid)
            case FloatBlock():
                parts.append(block.values.to(torch.float64))
    return torch.cat(parts)


def append_public_rows(release: Release, rows: Tensor) -> Release:
    """Put rows that never met private data after a release.

    Args:
        release: What the sanitizer made.
        rows: Computed from public values only.

    Returns:
        The release with one more block of float32 rows.

    Privacy:
        Post-processing: `rows` depend on nothing private.
    """
    block = FloatBlock(values=rows.detach().to("cpu", torch.float32).contiguous())
    return Release(blocks=(*release.blocks, block))


def post_process(released: Release, function: Callable[[Tensor], Tensor]) -> Release:
    """Apply a function of released and public values.

    Args:
        released: What the sanitizer made.
        function: Maps the released float64 values to float rows.

    Returns:
        The rows as a release of one float32 block.

    Privacy:
        Post-processing: free by definition of differential privacy.
    """
    rows = function(release_values(released))
    return Release(blocks=(FloatBlock(values=rows.detach().to("cpu", torch.float32).contiguous()),))


def join_releases(first: Release, second: Release) -> Release:
    """Put two releases into one, block after block.

    Returns:
        All blocks.

    Privacy:
        Post-processing: both were released.
    """
    return Release(blocks=(*first.blocks, *second.blocks))
