"""A vision transformer of torch's own layers, by the published names of DINOv2's weights."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

EPSILON = 1e-6


class Scaled(nn.Module):
    """Each number has a scale of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens * self.gamma


class Block(nn.Module):
    """Attention, then two linear layers, each standardised before and scaled after."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, EPSILON)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ls1 = Scaled(width)
        self.norm2 = nn.LayerNorm(width, EPSILON)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.ls2 = Scaled(width)

    def forward(self, tokens: Tensor) -> Tensor:
        normed = self.norm1(tokens)
        seen, _ = self.attn(normed, normed, normed, need_weights=False)
        tokens = tokens + self.ls1(seen)
        made: Tensor = tokens + self.ls2(self.mlp(self.norm2(tokens)))
        return made


class VisionTransformer(nn.Module):
    """Blocks on a token of the image and one of each patch."""

    def __init__(
        self,
        *,
        depth: int = 12,
        width: int = 384,
        heads: int = 6,
        hidden: int = 1536,
        positions: int = 37,
        patch: int = 14,
        channels: int = 3,
    ) -> None:
        super().__init__()
        self.side = positions
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + positions**2, width))
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.blocks = nn.ModuleList(Block(width, heads, hidden) for _ in range(depth))
        self.norm = nn.LayerNorm(width, EPSILON)

    @torch.no_grad()
    def redrawn(self, seed: int) -> VisionTransformer:
        """Return it with weights that keep the size of what they meet."""
        drawn = torch.Generator().manual_seed(seed)
        for name, one in self.named_parameters():
            if one.ndim == 1:
                mean = float("weight" in name or "gamma" in name)
                nn.init.normal_(one, mean * 0.8, 0.1, generator=drawn)
            elif one.ndim == 3:
                nn.init.normal_(one, 0, 0.5, generator=drawn)
            else:
                nn.init.normal_(one, 0, one[0].numel() ** -0.5, generator=drawn)
        return self

    def after_blocks(self, patches_NWXY: Tensor, stages: Collection[int]) -> list[Tensor]:
        """Return the image's token after some blocks, standardised."""
        table = self.pos_embed[:, 1:].transpose(1, 2).reshape(1, -1, self.side, self.side)
        table = interpolate(table, patches_NWXY.shape[2:], mode="bicubic", align_corners=False)
        tokens = (patches_NWXY + table).flatten(2).transpose(1, 2)
        first = (self.cls_token + self.pos_embed[:, :1]).expand(len(tokens), 1, -1)
        tokens, found = torch.cat((first, tokens), dim=1), []
        for number, block in enumerate(self.blocks, start=1):
            tokens = block(tokens)
            if number in stages:
                found.append(self.norm(tokens)[:, 0])
        return found

    def forward(self, images: Tensor) -> Tensor:
        """Return the image's token at the end, of pixels in [-1, 1]."""
        mean = torch.tensor([0.485, 0.456, 0.406]).reshape(3, 1, 1)
        spread = torch.tensor([0.229, 0.224, 0.225]).reshape(3, 1, 1)
        maps = self.patches(((images + 1) / 2 - mean) / spread)
        return self.after_blocks(maps, (len(self.blocks),))[0]

    def by_curators_names(self) -> dict[str, Tensor]:
        """Return the weights of the blocks as the curator has them."""
        made = {
            "token.weight": (self.cls_token + self.pos_embed[:, :1]).flatten(),
            "positions.weight": self.pos_embed[0, 1:],
        }
        for number, block in enumerate(self.blocks):
            state = dict(block.named_parameters())
            names = {
                "norm1": "norm1.",
                "norm2": "norm2.",
                "qkv": "attn.in_proj_",
                "proj": "attn.out_proj.",
                "fc1": "mlp.0.",
                "fc2": "mlp.2.",
            }
            for ours, theirs in names.items():
                for part in ("weight", "bias"):
                    made[f"block{number}.{ours}.{part}"] = state[f"{theirs}{part}"]
            for ours, theirs in (("scale1", "ls1.gamma"), ("scale2", "ls2.gamma")):
                made[f"block{number}.{ours}.weight"] = state[theirs]
        return made | {"norm.weight": self.norm.weight, "norm.bias": self.norm.bias}

    def by_published_names(self) -> dict[str, Tensor]:
        """Return all weights by the names of torch.hub and timm."""
        made = {
            "cls_token": self.cls_token,
            "pos_embed": self.pos_embed,
            "mask_token": torch.zeros(1, self.cls_token.shape[-1]),
        }
        theirs = {"qkv": "attn.qkv", "proj": "attn.proj", "fc1": "mlp.fc1", "fc2": "mlp.fc2"}
        made |= {f"patch_embed.proj.{name}": one for name, one in self.patches.named_parameters()}
        for name, one in self.by_curators_names().items():
            block, *rest = name.split(".")
            if block.startswith("block"):
                at = f"blocks.{block.removeprefix('block')}"
                if rest[0].startswith("scale"):
                    made[f"{at}.ls{rest[0][-1]}.gamma"] = one
                else:
                    made[f"{at}.{theirs.get(rest[0], rest[0])}.{rest[1]}"] = one
        made |= {"norm.weight": self.norm.weight, "norm.bias": self.norm.bias}
        return {name: one.detach().contiguous() for name, one in made.items()}

    def by_other_published_names(self) -> dict[str, Tensor]:
        """Return all weights by the names of transformers' Dinov2Model."""
        made = {}
        for name, one in self.by_published_names().items():
            at, _, part = name.rpartition(".")
            if name in {"cls_token", "mask_token"}:
                made[f"embeddings.{name}"] = one
            elif name == "pos_embed":
                made["embeddings.position_embeddings"] = one
            elif at == "patch_embed.proj":
                made[f"embeddings.patch_embeddings.projection.{part}"] = one
            elif at == "norm":
                made[f"layernorm.{part}"] = one
            elif at.endswith("attn.qkv"):
                layer = at.split(".")[1]
                for which, third in zip(("query", "key", "value"), one.chunk(3), strict=True):
                    made[f"encoder.layer.{layer}.attention.attention.{which}.{part}"] = third
            else:
                layer, rest = name.split(".", 2)[1:]
                rest = rest.replace("attn.proj", "attention.output.dense")
                rest = rest.replace("ls1.gamma", "layer_scale1.lambda1")
                rest = rest.replace("ls2.gamma", "layer_scale2.lambda1")
                made[f"encoder.layer.{layer}.{rest}"] = one
        return {name: one.clone() for name, one in made.items()}
