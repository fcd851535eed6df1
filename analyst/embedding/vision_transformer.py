"""A vision transformer in floats, on weights by name: blocks of attention and of linear layers.

Shapes: N images, T tokens, W numbers of a token, X and Y places of a map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import (
    gelu,
    interpolate,
    layer_norm,
    linear,
    scaled_dot_product_attention,
)

_EPSILON = 1e-6
_LARGEST = 512.0


def image_tokens(
    patches_NWXY: Tensor, weight: Callable[[str], Tensor], *, depth: int, heads: int
) -> Iterator[Tensor]:
    """Yield the standardised token of each image [N, W, 1, 1] after each block.

    Args:
        patches_NWXY: What a convolution made of each patch.
        weight: Returns a weight by its name, as the patches are.
        depth: Number of blocks.
        heads: Parts of attention.
    """

    def bounded(values: Tensor) -> Tensor:
        return values.clamp(-_LARGEST, _LARGEST)

    def layer(tokens_NTW: Tensor, name: str) -> Tensor:
        return bounded(linear(tokens_NTW, weight(f"{name}.weight"), weight(f"{name}.bias")))

    def norm(tokens_NTW: Tensor, name: str) -> Tensor:
        scale, shift = weight(f"{name}.weight"), weight(f"{name}.bias")
        return bounded(layer_norm(tokens_NTW, scale.shape, scale, shift, _EPSILON))

    side = round(len(weight("positions.weight")) ** 0.5)
    table = weight("positions.weight").T.reshape(1, -1, side, side)
    tall_and_wide = patches_NWXY.shape[2:]
    if tall_and_wide != table.shape[2:]:
        table = interpolate(table, tall_and_wide, mode="bicubic", align_corners=False)
    patches_NTW = (patches_NWXY + table).flatten(2).transpose(1, 2)
    image = weight("token.weight").expand(len(patches_NTW), 1, -1)
    tokens = bounded(torch.cat((image, patches_NTW), dim=1))
    for number in range(depth):
        name = f"block{number}"
        parts = layer(norm(tokens, f"{name}.norm1"), f"{name}.qkv").chunk(3, dim=2)
        query, key, value = (
            part.reshape(*part.shape[:2], heads, -1).transpose(1, 2) for part in parts
        )
        seen = scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        tokens = bounded(tokens + layer(seen, f"{name}.proj") * weight(f"{name}.scale1.weight"))
        made = gelu(layer(norm(tokens, f"{name}.norm2"), f"{name}.fc1"))
        tokens = bounded(tokens + layer(made, f"{name}.fc2") * weight(f"{name}.scale2.weight"))
        yield norm(tokens[:, 0], "norm")[:, :, None, None]
