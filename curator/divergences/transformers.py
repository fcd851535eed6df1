"""The blocks of a vision transformer, in exact numbers or in floats.

One token stands for the image and one for each patch. A block adds to them what attention makes of
all tokens, and then what two linear layers make of each. Features are the image's token after some
of the blocks, standardised as at the end.

Shape legend: N images, T tokens, W width, H heads, E numbers of a head, X and Y places of a map.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, final

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, softmax

from curator.divergences import exact_functions as exact
from curator.divergences.architectures import TransformerPlan

_EPSILON: Final = 1e-6  # of variances


@final
class Transformer:
    """Blocks on weights by name.

    References:
        [dosovitskiy:21], section 3.1; [oquab:24], whose layers are scaled.
    """

    def __init__(
        self, plan: TransformerPlan, weights: Mapping[str, Tensor], *, is_exact: bool
    ) -> None:
        """Take weights of the plan's sizes; exact ones are on their grids."""
        self._plan = plan
        self._weights = weights
        self._is_exact = is_exact

    def features(self, maps_NWXY: Tensor, stages: Collection[int]) -> list[Tensor]:
        """Return the image's token [N, W] after each of the blocks that `stages` counts.

        Args:
            maps_NWXY: What patches are, on the grid of activations if it is exact.
            stages: Numbers of blocks, of which the first is 1.

        Privacy:
            If it is exact, row i is a function of row i and the weights alone, bit for bit.
        """
        patches = maps_NWXY.flatten(2).transpose(1, 2) + self._positions(*maps_NWXY.shape[2:])
        image = self._weights["token.weight"].expand(len(patches), 1, -1)
        tokens_NTW = self._settled(torch.cat((image, patches), dim=1))
        found = []
        for number in range(max(stages)):
            name = f"block{number}"
            tokens_NTW = self._added(
                tokens_NTW, self._attention(tokens_NTW, name), f"{name}.scale1"
            )
            tokens_NTW = self._added(tokens_NTW, self._layers(tokens_NTW, name), f"{name}.scale2")
            if number + 1 in stages:
                found.append(self._norm(tokens_NTW[:, 0], "norm"))
        return found

    def _attention(self, tokens_NTW: Tensor, name: str) -> Tensor:
        normed = self._norm(tokens_NTW, f"{name}.norm1")
        together = self._linear(normed, f"{name}.qkv")
        parts = together.reshape(*together.shape[:2], 3, self._plan.heads, -1)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        if self._is_exact:
            made_NHTE = self._settled(exact.attended(queries, keys, values))
        else:
            scores = queries @ keys.transpose(-1, -2) * queries.shape[-1] ** -0.5
            made_NHTE = softmax(scores, dim=-1) @ values
        return self._linear(made_NHTE.transpose(1, 2).flatten(2), f"{name}.proj")

    def _layers(self, tokens_NTW: Tensor, name: str) -> Tensor:
        made = self._linear(self._norm(tokens_NTW, f"{name}.norm2"), f"{name}.fc1")
        made = self._settled(exact.gelu(made)) if self._is_exact else gelu(made)
        return self._linear(made, f"{name}.fc2")

    def _added(self, tokens_NTW: Tensor, more_NTW: Tensor, name: str) -> Tensor:
        return self._settled(tokens_NTW + more_NTW * self._weights[f"{name}.weight"])

    def _norm(self, tokens: Tensor, name: str) -> Tensor:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        if self._is_exact:
            return self._settled(exact.standardised(tokens, _EPSILON) * weight + bias)
        return self._settled(layer_norm(tokens, weight.shape, weight, bias, _EPSILON))

    def _linear(self, tokens: Tensor, name: str) -> Tensor:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return self._settled(tokens @ weight.T + bias)

    def _positions(self, tall: int, wide: int) -> Tensor:
        """Return what is added to each patch [X Y, W]; every sum is exact."""
        side = self._plan.positions
        rows, columns = (
            exact.cubic_weights(side, size).to(self._weights["positions.weight"])
            for size in (tall, wide)
        )
        table = self._weights["positions.weight"].reshape(side, -1)
        table = self._settled(rows @ table).reshape(tall, side, -1)
        return self._settled(columns @ table).flatten(0, 1)

    def _settled(self, values: Tensor) -> Tensor:
        if self._is_exact:
            return exact.settled(values)
        return values.clamp(-exact.LARGEST_ACTIVATION, exact.LARGEST_ACTIVATION)
