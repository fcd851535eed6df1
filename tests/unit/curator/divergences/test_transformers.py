"""The blocks of a transformer, against the same of torch's own layers."""

from __future__ import annotations

from typing import Final

import pytest
import torch
from torch import Tensor, nn

from curator.divergences import exact_functions as exact
from curator.divergences.architectures import TransformerPlan
from curator.divergences.transformers import Transformer
from tests.fakes.vision_transformer import VisionTransformer

PLAN: Final = TransformerPlan(depth=3, width=24, heads=4, hidden=40, positions=5)


def reference() -> VisionTransformer:
    model = VisionTransformer(
        depth=3, width=24, heads=4, hidden=40, positions=5, patch=2, channels=1
    )
    return model.redrawn(0).double().eval()


def patches(count: int = 6, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return exact.settled(torch.randn((count, 24, 4, 3), generator=generator, dtype=torch.float64))


def weights_of(model: VisionTransformer, *, is_exact: bool) -> dict[str, Tensor]:
    weights = {name: one.detach() for name, one in model.by_curators_names().items()}
    if not is_exact:
        return weights
    fine = PLAN.scales
    return {
        name: exact.on_grid(one, exact.SCALE_STEP if name in fine else exact.WEIGHT_STEP)
        for name, one in weights.items()
    }


def test_every_weight_has_a_size() -> None:
    sizes = {name: tuple(one.shape) for name, one in reference().by_curators_names().items()}
    assert sizes == PLAN.sizes
    assert PLAN.scales == {
        *(f"block{n}.{part}.weight" for n in range(3) for part in ("scale1", "scale2")),
        *(f"block{n}.{part}.weight" for n in range(3) for part in ("norm1", "norm2")),
        "norm.weight",
    }


@torch.no_grad()
@pytest.mark.parametrize(("is_exact", "close"), [(False, 1e-4), (True, 5e-3)])
def test_blocks_are_those_of_torch(close: float, *, is_exact: bool) -> None:
    model = reference()
    blocks = Transformer(PLAN, weights_of(model, is_exact=is_exact), is_exact=is_exact)
    found = blocks.features(patches(), (1, 3))
    for one, expected in zip(found, model.after_blocks(patches(), (1, 3)), strict=True):
        torch.testing.assert_close(one, expected, rtol=0, atol=close)
        assert float(one.std(dim=0).mean()) > 0.1


def test_a_row_does_not_know_its_companions() -> None:
    blocks = Transformer(PLAN, weights_of(reference(), is_exact=True), is_exact=True)
    maps = patches(17)
    (rows,) = blocks.features(maps, (3,))
    for kept in (torch.arange(16, -1, -1), torch.tensor([4]), torch.tensor([2, 2, 11])):
        (some,) = blocks.features(maps[kept], (3,))
        assert torch.equal(some, rows[kept])


def test_floats_have_slopes() -> None:
    blocks = Transformer(PLAN, weights_of(reference(), is_exact=False), is_exact=False)
    maps = patches(2).requires_grad_()
    (rows,) = blocks.features(maps, (2,))
    (slopes,) = torch.autograd.grad(rows.square().sum() + rows[:, 0].sum(), maps)
    assert float(slopes.abs().max()) > 0


def test_largest_weights_keep_every_number_bounded() -> None:
    weights = {name: torch.full(size, 1024.0).double() for name, size in PLAN.sizes.items()}
    (rows,) = Transformer(PLAN, weights, is_exact=True).features(patches(), (3,))
    assert bool((rows.abs() <= exact.LARGEST_ACTIVATION).all())
    tiny = {name: nn.init.zeros_(torch.empty(size)).double() for name, size in PLAN.sizes.items()}
    (none,) = Transformer(PLAN, tiny, is_exact=True).features(patches(), (3,))
    assert none.count_nonzero() == 0
